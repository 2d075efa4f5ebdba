// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/httpagent"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func set(t *testing.T, a *httpagent.Agent, c *wirev1.HTTPConfig) codes.Code {
	t.Helper()
	encoded, err := wirev1.MarshalConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.SetHTTPConfig(t.Context(), &wirev1.SetHTTPConfigRequest{Config: encoded})
	return status.Code(err)
}

// TestSetHTTPConfig: the next connection gets what the manager sent; what no file could ask for is rejected.
func TestSetHTTPConfig(t *testing.T) {
	c := &configs{c: config(t)}
	a, _ := start(t, c)
	h := a.HealthHandler()
	eventually(t, "it is ready", func() bool { return ready(t, h, "/readyz") == http.StatusOK })
	next, _ := c.read()
	next.Generation, next.Revision, next.Codings = 7, "2", []string{"gzip"}
	if code := set(t, a, next); code != codes.OK {
		t.Fatal(code)
	}
	r := a.Report()
	if r.GetRevision() != "2" || r.GetConfiguration().GetGeneration() != 7 || r.GetConfiguration().GetRejected() != 0 {
		t.Errorf("%v", r)
	}
	client := &http.Client{
		Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, Timeout: patience,
	}
	if got := get(t, client, "http://"+next.GetListenAddress()).Header.Get("Content-Encoding"); got != "gzip" {
		t.Errorf("coding %q", got)
	}
	next.Generation, next.Revision, next.Backend.Address = 8, "3", ""
	if code := set(t, a, next); code != codes.InvalidArgument {
		t.Error(code)
	}
	if r := a.Report(); r.GetRevision() != "2" || r.GetConfigError() == "" || r.GetConfiguration().GetGeneration() != 7 ||
		r.GetConfiguration().GetRejected() != 8 {
		t.Errorf("%v", r)
	}
}
