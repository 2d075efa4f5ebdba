// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/controllers/redact"
)

// planted marks what must not be left.
const planted = "Plant3dS3cret"

const key = "-----BEGIN EC PRIVATE KEY-----\n" + planted + "\n-----END EC PRIVATE KEY-----"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"a " + key + " b":                                  "a (removed) b",
		"-----BEGIN PRIVATE KEY-----\n" + planted:          "(removed)",
		`"-----BEGIN PRIVATE KEY-----\n` + planted + `\n"`: `"(removed)`,
		"token eyJhbGciOi.eyJ" + planted + ".sig ends":     "token (removed) ends",
		"it is lighterage-link-AQAAAABp" + planted + "-_":  "it is (removed)",
		"Authorization: Bearer " + planted:                 "Authorization: (removed) (removed)",
		"got bearer " + planted + ", no":                   "got bearer (removed), no",
		"https://me:" + planted + "@example.org/x":         "https://(removed)@example.org/x",
		"nats://" + planted + "@example.org":               "nats://(removed)@example.org",
		"AKIAABCDEFGHIJKLMNOP":                             "(removed)",
		"SUAM" + strings.Repeat("A", 54):                   "(removed)",
		"password=" + planted + " next":                    "password=(removed) next",
		`{"dbPassword":"` + planted + ` x","n":1}`:         `{"dbPassword":(removed),"n":1}`,
		`{\"token\":\"` + planted + `\",\"n\":1}`:          `{\"token\":(removed),\"n\":1}`,
		"secret_key: '" + planted + "'":                    "secret_key: (removed)",
		"?X-Amz-Signature=" + planted + "&a=b":             "?X-Amz-Signature=(removed)&a=b",
		"x-api-key: " + planted:                            "x-api-key: (removed)",
		// What is needed to help is kept.
		`{"msg":"Transfer bank/ledger: Succeeded","secretName":"orders-tokens"}`: "",
		"dial tcp 192.0.2.1:8443: connection refused at https://west.example:1":  "",
		"mounting Secret bank/orders-tokens: not found":                          "",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----":            "",
		"": "",
	} {
		if want == "" {
			want = text
		}
		if got := redact.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	document := `{"kind":"Pod","metadata":{"name":"p","managedFields":[{"manager":"` + planted + `"}],
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + planted + `","lighterage.dev/run":"1"}},
		"data":{"a":"` + planted + `"},"stringData":{"a":"` + planted + `"},"binaryData":{"a":"` + planted + `"},
		"spec":{"caBundle":"` + encoded + `","secretName":"kept","password":"` + planted + `","tokens":{"secretName":"kept too"},
			"containers":[{"name":"c","args":["--token=` + planted + `","--keep"],
				"env":[{"name":"A","value":"` + planted + `"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"kept","key":"k"}}}]}],
			"size":12,"list":["https://u:` + planted + `@host/"]}}`
	var object map[string]any
	if err := json.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	redact.Object(object)
	left, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{planted, encoded, "managedFields"} {
		if strings.Contains(string(left), gone) {
			t.Errorf("%s is left in\n%s", gone, left)
		}
	}
	for _, kept := range []string{
		`"lighterage.dev/run":"1"`, `"secretName":"kept"`, `"secretName":"kept too"`, `"--keep"`, `"secretKeyRef":{"key":"k"`,
		`"size":12`, `"name":"B"`,
	} {
		if !strings.Contains(string(left), kept) {
			t.Errorf("%s is not in\n%s", kept, left)
		}
	}
	redact.Object(map[string]any{"metadata": "odd", "env": 1, "data": nil})
}

// FuzzRedact: nothing panics, and a planted password is never left.
func FuzzRedact(f *testing.F) {
	f.Add("x", "y")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.ContainsAny(before, "\\\"'") || strings.Contains(after, planted) || strings.Contains(before, planted) {
			t.Skip()
		}
		if got := redact.Text(before + " password=" + planted + " " + after); strings.Contains(got, planted) {
			t.Errorf("%q", got)
		}
	})
}
