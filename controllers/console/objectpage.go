// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/lighterage/lighterage/controllers/console/view"
	"github.com/lighterage/lighterage/controllers/explain"
)

const (
	// listPage is how many objects of a kind and cluster a page has.
	listPage = 100
	// runForm is the form of the value that names a run that is asked for, and askLife how old one may be.
	runForm = "2006-01-02T15:04:05.000Z"
	askLife = time.Hour
)

type listBody struct {
	Kind       string
	Resource   string
	Lists      []clusterList
	Namespace  string
	Namespaced bool
	Fixed      bool
	Others     []navigation
}

type clusterList struct {
	view.Table

	Trouble string
	// Next is the path with what comes after; "" when there is no more.
	Next string
}

// list shows the objects of a kind, in pages that the API server makes.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	kind, ok := s.kindAt(r.PathValue("resource"))
	if !ok {
		s.message(w, r, http.StatusNotFound, "No such kind", "The console does not know this kind.")
		return
	}
	query := r.URL.Query()
	namespace := s.namespaceOf(kind)
	fixed := s.namespace != ""
	if !fixed && !kind.Cluster {
		namespace = query.Get("namespace")
		if namespace != "" && len(validation.ValidateNamespaceName(namespace, false)) > 0 {
			s.message(w, r, http.StatusBadRequest, "No such namespace", "This cannot be the name of a namespace.")
			return
		}
	}
	body := listBody{
		Kind: kind.Name, Resource: kind.Resource, Namespace: namespace, Namespaced: !kind.Cluster, Fixed: fixed,
	}
	for i := range s.clusters {
		if chosen := query.Get("cluster"); chosen != "" && chosen != strconv.Itoa(i) {
			continue
		}
		body.Lists = append(body.Lists, s.listOf(r, i, kind, namespace, query.Get("after")))
	}
	for _, k := range s.kinds {
		body.Others = append(body.Others, navigation{Title: k.Name, Path: "/list/" + k.Resource, Here: k == kind})
	}
	p := page{Title: kind.Name + "s", Here: "/list/" + kind.Resource, Refresh: seldom, Body: body}
	if kind.Name == "Delivery" || strings.HasSuffix(kind.Name, "Policy") {
		p.Title = strings.TrimSuffix(kind.Name, "y") + "ies"
	}
	s.render(w, r, http.StatusOK, "list", p)
}

func (s *Server) listOf(r *http.Request, cluster int, kind Kind, namespace, after string) clusterList {
	name := s.clusters[cluster].Name()
	objects, next, err := s.clusters[cluster].List(r.Context(), kind, namespace, listPage, after)
	l := clusterList{
		Table: view.List(name, cluster, kind.Name, kind.Resource, objects, s.now()), Trouble: trouble(err),
	}
	if next != "" {
		q := url.Values{"cluster": {strconv.Itoa(cluster)}, "after": {next}}
		if namespace != "" && s.namespace == "" {
			q.Set("namespace", namespace)
		}
		l.Next = "/list/" + kind.Resource + "?" + q.Encode()
	}
	return l
}

// named is the object that a path names.
type named struct {
	cluster int
	kind    Kind
	key     Key
	link    view.Link
}

func (s *Server) named(w http.ResponseWriter, r *http.Request) (n named, ok bool) {
	var err error
	n.cluster, err = strconv.Atoi(r.PathValue("cluster"))
	kind, known := s.kindAt(r.PathValue("resource"))
	n.kind, n.key = kind, Key{r.PathValue("namespace"), r.PathValue("name")}
	if n.kind.Cluster {
		n.key.Namespace = ""
	}
	// Names are those of Kubernetes, so that none becomes a path of the API server.
	bad := len(validation.NameIsDNSSubdomain(n.key.Name, false)) > 0 ||
		!kind.Cluster && len(validation.ValidateNamespaceName(n.key.Namespace, false)) > 0
	outside := s.namespace != "" && !kind.Cluster && n.key.Namespace != s.namespace
	if err != nil || n.cluster < 0 || n.cluster >= len(s.clusters) || !known || bad || outside {
		s.message(w, r, http.StatusNotFound, "No such object", "The address names no object that this console shows.")
		return n, false
	}
	n.link = view.Link{Cluster: n.cluster, Resource: kind.Resource, Namespace: n.key.Namespace, Name: n.key.Name}
	return n, true
}

// explained reads the object that a path names, and what there is to say of it.
func (s *Server) explained(w http.ResponseWriter, r *http.Request) (n named, o explain.Object, p *explain.Report, ok bool) {
	if n, ok = s.named(w, r); !ok {
		return n, nil, nil, false
	}
	o, p, err := s.clusters[n.cluster].Explain(r.Context(), n.kind, n.key)
	switch {
	case apierrors.IsNotFound(err):
		s.message(w, r, http.StatusNotFound, "Not there", fmt.Sprintf(
			"There is no %s of this name in cluster %s. It may have been deleted.", n.kind.Name, s.clusters[n.cluster].Name(),
		))
	case apierrors.IsForbidden(err):
		s.message(w, r, http.StatusForbidden, "Not allowed", fmt.Sprintf(
			"You may not read this %s. Ask for a role with the verb get on %s of lighterage.dev.", n.kind.Name, n.kind.Resource,
		))
	case err != nil:
		s.message(w, r, http.StatusBadGateway, "Not read", trouble(err))
	}
	return n, o, p, err == nil
}

type objectBody struct {
	view.Object

	Link    view.Link
	Context string
	Several bool
	List    string
	Offered []view.Act
	Acted   string
}

// object shows one, with buttons for what the user may do to it.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	n, object, report, ok := s.explained(w, r)
	if !ok {
		return
	}
	body := objectBody{
		Object: view.ObjectOf(object, report, s.now()), Link: n.link, Context: s.clusters[n.cluster].Name(),
		Several: len(s.clusters) > 1, List: "/list/" + n.kind.Resource, Acted: done[r.URL.Query().Get("done")],
	}
	if len(body.Acts) > 0 {
		may, err := s.clusters[n.cluster].May(r.Context(), n.kind, n.key)
		switch {
		case err != nil:
			body.Notes = append(body.Notes, "whether you may change it is not known: "+trouble(err))
		case may:
			body.Offered = body.Acts
		}
	}
	refresh := seldom
	if body.Moving {
		refresh = often
	}
	s.render(w, r, http.StatusOK, "object", page{
		Title: n.kind.Name + " " + strings.TrimPrefix(n.key.Namespace+"/"+n.key.Name, "/"), Here: body.List,
		Refresh: refresh, Said: string(body.State), Body: body,
	})
}

// done are what pages say after an act.
var done = map[string]string{
	view.ActRun:     "Another run was asked for.",
	view.ActSuspend: "The Transfer was suspended.",
	view.ActPause:   "The Transfer was paused. Its phase is Paused when its agents have ended.",
	view.ActResume:  "The Transfer was resumed.",
}

type confirmBody struct {
	objectBody

	Act   view.Act
	UID   string
	Value string
}

// confirm asks before an act, and says what it does.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request) {
	n, object, report, ok := s.explained(w, r)
	if !ok {
		return
	}
	act, ok := s.offered(w, r, n, object)
	if !ok {
		return
	}
	s.render(w, r, http.StatusOK, "confirm", page{
		Title: act.Title + ": " + n.kind.Name + " " + n.key.Namespace + "/" + n.key.Name, Here: "/list/" + n.kind.Resource,
		Body: confirmBody{
			objectBody: objectBody{
				Object: view.ObjectOf(object, report, s.now()), Link: n.link, Context: s.clusters[n.cluster].Name(),
			},
			Act: act, UID: string(object.GetUID()), Value: s.now().UTC().Format(runForm),
		},
	})
}

// offered finds the act that a path names among those that make sense and are allowed.
func (s *Server) offered(w http.ResponseWriter, r *http.Request, n named, object explain.Object) (view.Act, bool) {
	var act view.Act
	for _, a := range view.Acts(object) {
		if a.Name == r.PathValue("act") {
			act = a
		}
	}
	if act.Name == "" {
		s.message(w, r, http.StatusConflict, "Nothing to do",
			"This cannot be done to the object as it is now. It may have been done already.")
		return act, false
	}
	may, err := s.clusters[n.cluster].May(r.Context(), n.kind, n.key)
	switch {
	case err != nil:
		s.message(w, r, http.StatusBadGateway, "Not known whether you may", trouble(err))
	case !may:
		s.message(w, r, http.StatusForbidden, "Not allowed", fmt.Sprintf(
			"You may not change this %s. Ask for a role with the verb patch on %s of lighterage.dev.", n.kind.Name,
			n.kind.Resource,
		))
	}
	return act, err == nil && may
}

// act does what a form asks for.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	n, object, _, ok := s.explained(w, r)
	if !ok {
		return
	}
	act, ok := s.offered(w, r, n, object)
	if !ok {
		return
	}
	uid, value := r.PostForm.Get("uid"), r.PostForm.Get("value")
	asked, err := time.Parse(runForm, value)
	switch {
	case uid != string(object.GetUID()):
		s.message(w, r, http.StatusConflict, "Another object",
			"The object was replaced by another one of the same name. Nothing was done.")
		return
	case err != nil || s.now().Sub(asked) > askLife || asked.After(s.now().Add(time.Minute)):
		s.message(w, r, http.StatusConflict, "Too late", "The question is older than an hour. Nothing was done. Ask again.")
		return
	}
	if err := s.clusters[n.cluster].Act(r.Context(), act.Name, n.kind, n.key, uid, value); err != nil {
		text := "Nothing was done: " + trouble(err) + "."
		if apierrors.IsForbidden(err) {
			text = "The cluster does not allow it. Nothing was done."
		}
		s.message(w, r, http.StatusBadGateway, "Not done", text)
		return
	}
	http.Redirect(w, r, s.base+"/object"+pathOf(&n.link)+"?done="+act.Name, http.StatusSeeOther)
}
