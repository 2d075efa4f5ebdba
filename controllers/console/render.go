// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lighterage/lighterage/controllers/console/view"
)

//go:embed assets
var assets embed.FS

// page is what every page has.
type page struct {
	Title string
	// Here is the path of its entry in the navigation.
	Here string
	// Refresh is after how many seconds the page is looked at again; 0 is never.
	Refresh int
	// Said is read out when it changes.
	Said string
	Body any

	// What follows is filled in by render.
	Base     string
	Nav      []navigation
	Version  string
	Scope    string
	Form     string
	SignedIn bool
	Time     string
}

type navigation struct {
	Title, Path string
	Here        bool
}

// entries are those of the navigation: of kinds, those that people look for first.
var entries = []navigation{
	{Title: "Overview", Path: "/"}, {Title: "Runs", Path: "/runs"}, {Title: "Transfers", Path: "/list/transfers"},
	{Title: "Queues", Path: "/list/queues"}, {Title: "Endpoints", Path: "/list/httpendpoints"},
	{Title: "Nodes", Path: "/list/nodeprofiles"}, {Title: "Statements", Path: "/list/statements"},
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"path": pathOf,
	"ref":  func(l view.Link) *view.Link { return &l },
	"span": span,
	// Templates have one argument.
	"of":     func(base string, t view.Table) map[string]any { return map[string]any{"Base": base, "Table": t} },
	"pair":   func(base string, c view.Cell) map[string]any { return map[string]any{"Base": base, "Cell": c} },
	"draw":   func(class string, d view.Drawing) map[string]any { return map[string]any{"Class": class, "Drawing": d} },
	"left":   func(middle, length float64) float64 { return middle - length/2 },
	"middle": func(at, length float64) float64 { return at + length/2 },
	// below is where the name of a box is: above its note, if it has one.
	"below": func(top float64, note string) float64 {
		if note != "" {
			return top + 20
		}
		return top + 28
	},
	"classes": func(number, wide bool) string {
		return strings.TrimSpace(map[bool]string{true: "n"}[number] + map[bool]string{true: " w"}[wide])
	},
}).ParseFS(assets, "assets/*.html"))

// span is how many columns a table has on the page.
func span(t view.Table) int {
	n := len(t.Columns)
	for _, row := range t.Rows {
		n = max(n, len(row.Cells))
	}
	if t.Bars {
		n++
	}
	return n
}

// pathOf is the path of the page of an object, below the base. A namespace that there is none of is a dash, which is no
// name of one.
func pathOf(l *view.Link) string {
	namespace := l.Namespace
	if namespace == "" {
		namespace = "-"
	}
	return "/" + strconv.Itoa(l.Cluster) + "/" + url.PathEscape(l.Resource) + "/" + url.PathEscape(namespace) + "/" +
		url.PathEscape(l.Name)
}

// render writes a page. It is written as a whole, or not at all.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Base, p.Version, p.Scope = s.base, s.version, s.namespace
	session := sessionOf(r)
	p.Form, p.SignedIn = session.form, session.form != ""
	p.Time = s.now().UTC().Format("15:04:05 UTC")
	if p.SignedIn {
		for _, n := range entries {
			n.Here = n.Path == p.Here
			p.Nav = append(p.Nav, n)
		}
	}
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name+".html", p); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // who does not read a page gets none
}

// message writes a page that is only a text.
func (s *Server) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	s.render(w, r, status, "message", page{Title: title, Body: text})
}

// asset serves a file that is the same for everybody.
func asset(name, kind string) http.HandlerFunc {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is not in the program
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content)
	}
}
