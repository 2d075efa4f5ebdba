// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// H4: a tenant names Secrets that are no tokens and no certificates. What a member says of them, which is in status,
// and its log have nothing of their values.
func TestQueueQuotesNoSecret(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"text":          {"tls.crt": secretWord, "tls.key": secretWord},
		"PEM":           {"tls.crt": pemOf("CERTIFICATE"), "tls.key": pemOf("PRIVATE KEY")},
		"another's PEM": {"tls.crt": pemOf("OPENSSH PRIVATE KEY"), "tls.key": pemOf("OPENSSH PRIVATE KEY")},
		"one key":       {"tls.key": secretWord},
		"long":          {"tls.crt": strings.Repeat(secretWord, 10_000), "tls.key": strings.Repeat(secretWord, 10_000)},
	} {
		serving := t.TempDir()
		m := prepareQueue(t, func(c *wirev1.QueueConfig) { c.ServingDirectory = serving })
		for name, text := range files {
			m.write(filepath.Join(serving, name), text)
		}
		// Too long for a token, and not a file.
		m.write(filepath.Join(m.tokens, "long"), strings.Repeat(secretWord, 1000))
		if err := os.Mkdir(filepath.Join(m.tokens, "directory"), 0o700); err != nil {
			t.Fatal(err)
		}
		m.run()
		m.await(what+": it tells what is wrong", func() bool {
			r := m.Report(t.Context())
			return r.GetCertificate().GetState() != wirev1.CertificateState_CERTIFICATE_STATE_UNSPECIFIED && r.GetDetail() != ""
		})
		if text := prototext.Format(m.Report(t.Context())); strings.Contains(text, secretWord) {
			t.Errorf("%s: the report says %s", what, text)
		}
		if strings.Contains(m.log.String(), secretWord) {
			t.Errorf("%s: the log says %s", what, m.log.String())
		}
	}
}

// pemOf is a block that holds no such thing, with secretWord beside it.
func pemOf(kind string) string {
	return secretWord + "\n-----BEGIN " + kind + "-----\n" + secretWord + "\n-----END " + kind + "-----\n"
}
