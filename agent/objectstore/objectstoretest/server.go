// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstoretest is a small S3 store in memory, with the faults of real ones.
package objectstoretest

import (
	"crypto/md5" //nolint:gosec // ETags are MD5.
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is the one that a Server has.
const Bucket = "cargo"

// Faults are promises that a Server breaks all the time.
type Faults struct {
	// IgnoreConditions and IgnoreConditionalComplete: If-None-Match means nothing.
	IgnoreConditions, IgnoreConditionalComplete bool
	IgnoreRange, StaleReads, StaleLists         bool
	KeepAborted, KeepDeleted                    bool
	// WrongETags: parts are listed with others than they were put with.
	WrongETags bool
	// OpaqueETags: those of objects are no MD5s.
	OpaqueETags bool
	// ExactUploads: the prefix that uploads are listed by is taken for a key, as MinIO does.
	ExactUploads bool
	// EndlessLists: every page of a list says that there is more, and has what the one before had.
	EndlessLists bool
	// Files: objects are kept as files, so that none can be below another.
	Files bool
	// Denied methods are answered with AccessDenied, for example DELETE.
	Denied []string
	// ClockOffset is by how much the server's clock is ahead.
	ClockOffset time.Duration
}

// Server is a store. Its fields may be changed before the first request, and with Set.
type Server struct {
	// URL begins with https://.
	URL string
	// CA is PEM.
	CA []byte

	mu        sync.Mutex
	faults    Faults
	accessKey string
	intercept func(http.ResponseWriter, *http.Request) bool
	objects   map[string]*object
	old       map[string]*object
	uploads   map[string]*upload
	requests  []string
}

type object struct {
	content  []byte
	etag     string
	header   http.Header
	modified time.Time
}

type upload struct {
	key     string
	parts   map[int]*object
	header  http.Header
	started time.Time
	aborted bool
}

// New starts a Server that takes requests of one access key; empty: of everybody.
func New(t testing.TB, accessKey string) *Server {
	t.Helper()
	s := &Server{
		accessKey: accessKey, objects: map[string]*object{}, old: map[string]*object{}, uploads: map[string]*upload{},
	}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

// Set changes the faults, and the access key that is taken.
func (s *Server) Set(faults Faults, accessKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.accessKey = faults, accessKey
}

// Intercept has a function answer requests for which it returns true, before the server does; nil: none. It is called
// for one request at a time.
func (s *Server) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Add writes an object as somebody else does.
func (s *Server) Add(key string, content []byte, modified time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = &object{content: content, etag: digest(content), header: http.Header{}, modified: modified}
}

// Damage changes what an object holds, and neither its ETag nor its metadata, as a bad disk does.
func (s *Server) Damage(key string, change func(content []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := *s.objects[key]
	o.content = change(slices.Clone(o.content))
	s.objects[key] = &o
}

// Remove removes an object as somebody else does.
func (s *Server) Remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// Unlocked lets others be answered while a function runs, in a function that Intercept was given.
func (s *Server) Unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// Clear removes all objects at once.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.objects)
}

// Keys are those of all objects, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Uploads is how many are under way.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Requests are all that were made, as METHOD PATH?QUERY.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Times answers the next n requests of a method with an error. Retry-After is 0.
func Times(n int, method string, status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || n == 0 {
			return false
		}
		n--
		w.Header().Set("Retry-After", "0")
		fail(w, status, code)
		return true
	}
}

// Reset closes the connection of the next n requests of a method: after half of the request was read, or, with done,
// after the request was carried out.
func (s *Server) Reset(n int, method string, done bool) {
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || n == 0 {
			return false
		}
		n--
		if done {
			s.serve(httptest.NewRecorder(), r)
		} else {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		}
		panic(http.ErrAbortHandler)
	})
}

// Truncate ends the next n answers to gets of objects after half of the body.
func (s *Server) Truncate(n int) {
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || n == 0 || strings.Contains(r.URL.RawQuery, "list-type") {
			return false
		}
		n--
		answer := httptest.NewRecorder()
		s.serve(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush() // what is not sent yet is not an answer's beginning
		panic(http.ErrAbortHandler)
	})
}

func digest(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // ETags are MD5.
	return hex.EncodeToString(sum[:])
}

// ServeHTTP answers one request at a time.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	now := time.Now().Add(s.faults.ClockOffset)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	if s.intercept != nil && s.intercept(w, r) {
		return
	}
	s.serve(w, r)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case s.faults.ClockOffset.Abs() > 15*time.Minute:
		fail(w, http.StatusForbidden, "RequestTimeTooSkewed")
	case s.accessKey != "" && !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.accessKey+"/"):
		fail(w, http.StatusForbidden, "InvalidAccessKeyId")
	case bucket != Bucket:
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case slices.Contains(s.faults.Denied, r.Method):
		fail(w, http.StatusForbidden, "AccessDenied")
	case key == "" && query.Has("uploads"):
		s.listUploads(w, query)
	case key == "":
		s.list(w, query)
	case query.Has("uploads"):
		id := rand.Text()
		s.uploads[id] = &upload{key: key, parts: map[int]*object{}, header: meta(r), started: time.Now()}
		answer(w, initiated{Bucket: Bucket, Key: key, UploadID: id})
	case query.Has("uploadId"):
		s.serveUpload(w, r, key, query)
	default:
		s.serveObject(w, r, key)
	}
}

func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, key string) {
	switch r.Method {
	case http.MethodPut:
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if r.Header.Get("If-None-Match") == "*" && s.objects[key] != nil && !s.faults.IgnoreConditions {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		if code := s.occupied(key); code != "" {
			fail(w, http.StatusConflict, code)
			return
		}
		s.write(key, content, digest(content), meta(r))
		w.Header().Set("Etag", `"`+s.objects[key].etag+`"`)
	case http.MethodDelete:
		if !s.faults.KeepDeleted {
			delete(s.objects, key)
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r, key)
	}
}

// occupied is the error of a put where objects are files; empty: none.
func (s *Server) occupied(key string) string {
	for other := range s.objects {
		switch {
		case !s.faults.Files:
		case strings.HasPrefix(other, key+"/"):
			return "ExistingObjectIsDirectory"
		case strings.HasPrefix(key, other+"/"):
			return "ObjectParentIsFile"
		}
	}
	return ""
}

func (s *Server) write(key string, content []byte, etag string, header http.Header) {
	if s.faults.OpaqueETags {
		etag = digest([]byte(etag))
	}
	s.old[key] = s.objects[key]
	s.objects[key] = &object{content: content, etag: etag, header: header, modified: time.Now()}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	o := s.objects[key]
	if s.faults.StaleReads && s.old[key] != nil {
		o = s.old[key]
	}
	if o == nil {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != `"`+o.etag+`"` {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	maps.Copy(w.Header(), o.header)
	w.Header().Set("Etag", `"`+o.etag+`"`)
	if s.faults.IgnoreRange {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", o.modified, strings.NewReader(string(o.content)))
}

// meta are the headers that an object keeps.
func meta(r *http.Request) http.Header {
	kept := http.Header{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") || name == "X-Amz-Storage-Class" ||
			strings.HasPrefix(name, "X-Amz-Server-Side-Encryption") {
			kept[name] = values
		}
	}
	return kept
}

// Header is that of an object; nil if there is none.
func (s *Server) Header(key string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil {
		return o.header
	}
	return nil
}
