// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry serves container images from a folder, over plain HTTP.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// maxManifest bounds a manifest, in bytes; registries commonly take 4 MiB.
const maxManifest = 4 << 20

// unfinished ends the name of a file that is being written.
const unfinished = ".new"

// manifestPath is what clients put manifests to.
var manifestPath = regexp.MustCompile(`^/v2/.+/manifests/[^/]+$`)

// Handler is an image registry that keeps blobs and manifests in a folder.
//
// The registry it wraps keeps blobs on disk but manifests in memory only. So each
// manifest it accepts is also written down, and put again when a new Handler is made.
type Handler struct {
	inner http.Handler
	dir   string
	turn  chan struct{} // holds one token: puts are written down one at a time
}

// New makes a Handler of the images in dir.
func New(dir string) (*Handler, error) {
	blobs, manifests := filepath.Join(dir, "blobs"), filepath.Join(dir, "manifests")
	for _, d := range []string{blobs, manifests} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("opening registry folder: %w", err)
		}
	}
	h := &Handler{
		inner: registry.New(
			registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)),
			registry.WithReferrersSupport(true),
			registry.Logger(log.New(io.Discard, "", 0)),
		),
		dir:  manifests,
		turn: make(chan struct{}, 1),
	}
	if err := h.replay(); err != nil {
		return nil, err
	}
	return h, nil
}

// replay puts the manifests of former runs. An index is accepted only after the
// images it lists, so what was refused is tried again as long as others succeed.
func (h *Handler) replay() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return fmt.Errorf("reading manifests: %w", err)
	}
	var left []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), unfinished) {
			left = append(left, e.Name())
		}
	}
	for len(left) > 0 {
		var refused []string
		for _, name := range left {
			ok, err := h.replayOne(name)
			if err != nil {
				return fmt.Errorf("reading manifest %s: %w", filepath.Join(h.dir, name), err)
			}
			if !ok {
				refused = append(refused, name)
			}
		}
		if len(refused) == len(left) {
			log.Printf("Leaving out %d manifests whose parts are missing: %s", len(refused), strings.Join(refused, ", "))
			return nil
		}
		left = refused
	}
	return nil
}

// replayOne puts one manifest and reports whether it was accepted.
func (h *Handler) replayOne(name string) (bool, error) {
	path, err := url.PathUnescape(name)
	if err != nil {
		return false, err
	}
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		return false, err
	}
	contentType, body, _ := bytes.Cut(data, []byte("\n"))
	req := httptest.NewRequest(http.MethodPut, path, bytes.NewReader(body))
	req.Header.Set("Content-Type", string(contentType))
	answer := httptest.NewRecorder()
	h.inner.ServeHTTP(answer, req)
	return answer.Code == http.StatusCreated, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !manifestPath.MatchString(r.URL.Path) {
		h.inner.ServeHTTP(w, r)
		return
	}
	file := filepath.Join(h.dir, url.PathEscape(r.URL.Path))
	switch r.Method {
	case http.MethodPut:
		h.put(w, r, file)
	case http.MethodDelete:
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.inner.ServeHTTP(w, r)
	default:
		h.inner.ServeHTTP(w, r)
	}
}

func (h *Handler) put(w http.ResponseWriter, r *http.Request, file string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	status := &statusWriter{ResponseWriter: w, header: http.Header{}}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.inner.ServeHTTP(status, r)
	if status.code == http.StatusCreated {
		data := append([]byte(r.Header.Get("Content-Type")+"\n"), body...)
		if err := writeFile(file, data); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	status.flush()
}

func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path+unfinished, data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+unfinished, path)
}

// statusWriter holds an answer back until the manifest is written down.
type statusWriter struct {
	http.ResponseWriter
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (s *statusWriter) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(code int) { s.code = code }

// Write implements http.ResponseWriter.
func (s *statusWriter) Write(p []byte) (int, error) { return s.body.Write(p) }

func (s *statusWriter) flush() {
	for k, v := range s.header {
		s.ResponseWriter.Header()[k] = v
	}
	s.ResponseWriter.Header().Set("Content-Length", strconv.Itoa(s.body.Len()))
	if s.code == 0 {
		s.code = http.StatusOK
	}
	s.ResponseWriter.WriteHeader(s.code)
	_, _ = s.ResponseWriter.Write(s.body.Bytes())
}

// Serve serves the images of dir at address until ctx ends.
func Serve(ctx context.Context, address, dir string) error {
	h, err := New(dir)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	log.Printf("Serving images of %s at %s", dir, address)
	err = server.ListenAndServe()
	switch {
	case errors.Is(err, http.ErrServerClosed):
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serving images: %w: stop the program that listens there (`ss -ltnp` shows it)", err)
	default:
		return fmt.Errorf("serving images: %w", err)
	}
}
