// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var tokenTime = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newToken(t testing.TB) *Token {
	t.Helper()
	token, err := NewToken("west", "gateway.west.example:8443", sha256.Sum256([]byte("a CA")), tokenTime)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestToken(t *testing.T) {
	token := newToken(t)
	text := token.Encode()
	got, err := ParseToken(" " + text + "\n")
	if err != nil || *got != *token {
		t.Errorf("%v: %+v", err, got)
	}
	if !token.Expires.Equal(tokenTime.Add(15 * time.Minute)) {
		t.Errorf("%s", token.Expires)
	}
	if other := newToken(t); bytes.Equal(other.Key(), token.Key()) || bytes.Equal(other.ID(), token.ID()) {
		t.Error("two tokens are the same")
	}
	// What is kept of a token, and what a gateway is shown, do not lead to it.
	if bytes.Contains(token.Key(), token.secret[:8]) ||
		strings.Contains(token.Record().Hash, fmt.Sprintf("%x", token.Key())) {
		t.Error("the secret shows")
	}
	for _, endpoint := range []string{"", "west", "a:b:1", "a:1\n", strings.Repeat("a", 300) + ":1"} {
		if _, err := NewToken("west", endpoint, [32]byte{}, tokenTime); !errors.Is(err, ErrToken) {
			t.Errorf("endpoint %q: %v", endpoint, err)
		}
	}
	if _, err := NewToken("admin@west", "a:1", [32]byte{}, tokenTime); !errors.Is(err, ErrToken) {
		t.Errorf("name: %v", err)
	}
}

// TestGarbledToken: a token with any character changed, left out or added is no token.
func TestGarbledToken(t *testing.T) {
	text := newToken(t).Encode()
	for i := range text {
		for name, garbled := range map[string]string{
			"changed": text[:i] + string(rune(text[i])^1) + text[i+1:], "cut": text[:i], "left out": text[:i] + text[i+1:],
			"doubled": text[:i] + text[i:i+1] + text[i:],
		} {
			if got, err := ParseToken(garbled); err == nil && got.Encode() == text {
				continue // two equal characters beside each other
			} else if !errors.Is(err, ErrToken) {
				t.Errorf("%s at %d: %v", name, i, err)
			}
		}
	}
	for _, text := range []string{"", TokenPrefix, TokenPrefix + strings.Repeat("A", 2000), "eyJhbGciOi"} {
		if _, err := ParseToken(text); !errors.Is(err, ErrToken) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseToken: what is accepted is written back as it was.
func FuzzParseToken(f *testing.F) {
	f.Add(newToken(f).Encode())
	f.Add(TokenPrefix)
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			if !errors.Is(err, ErrToken) {
				t.Error(err)
			}
			return
		}
		if token.Encode() != strings.TrimSpace(text) || !ValidEndpoint(token.Endpoint) {
			t.Errorf("%+v", token)
		}
	})
}

func offer(t testing.TB, token *Token, bundle []byte) Offer {
	t.Helper()
	o := Offer{Name: "east", Endpoint: "gateway.east.example:8443", CABundle: bundle}
	token.Seal(&o)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRedeem: a token works once and until it ends, with its own key, and all that is wrong looks the same.
func TestRedeem(t *testing.T) {
	bundle := newBundle(t)
	token := newToken(t)
	o := offer(t, token, bundle)
	records, err := token.Add(nil, tokenTime)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := token.Offered(records, tokenTime); got != nil || err != nil {
		t.Errorf("before: %+v, %v", got, err)
	}
	other := newToken(t)
	for name, try := range map[string]struct {
		id, key []byte
		now     time.Time
	}{
		"unknown":     {other.ID(), other.Key(), tokenTime},
		"another key": {token.ID(), other.Key(), tokenTime},
		"no key":      {token.ID(), nil, tokenTime},
		"no id":       {nil, token.Key(), tokenTime},
		"expired":     {token.ID(), token.Key(), token.Expires},
		"much later":  {token.ID(), token.Key(), token.Expires.Add(time.Hour)},
		"long id":     {bytes.Repeat(token.ID(), 1000), token.Key(), tokenTime},
	} {
		got, err := Redeem(records, try.id, try.key, o, try.now)
		if got != nil || !errors.Is(err, ErrRejected) || err.Error() != ErrRejected.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, err := Redeem(records, token.ID(), token.Key(), o, token.Expires.Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Redeem(after, token.ID(), token.Key(), o, tokenTime); !errors.Is(err, ErrRejected) {
		t.Errorf("used twice: %v", err)
	}
	for _, content := range after {
		if strings.Contains(string(content), "hash") {
			t.Error("the hash stays after it was used")
		}
	}
	got, err := token.Offered(after, tokenTime.Add(time.Hour))
	if err != nil || got.Name != "east" || !bytes.Equal(got.CABundle, bundle) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := other.Offered(after, tokenTime); !errors.Is(err, ErrRejected) {
		t.Errorf("another token: %v", err)
	}
	if left := token.Remove(after, tokenTime); len(left) != 0 {
		t.Errorf("%v", left)
	}
	if _, err := token.Offered(after, tokenTime.Add(48*time.Hour)); !errors.Is(err, ErrRejected) {
		t.Errorf("after a day: %v", err)
	}
}

// TestForgedOffer: the gateway knows the key and the record, and still can put no cluster of its own in the place of
// the one that redeems.
func TestForgedOffer(t *testing.T) {
	token := newToken(t)
	records, err := token.Add(nil, tokenTime)
	if err != nil {
		t.Fatal(err)
	}
	honest := offer(t, token, newBundle(t))
	for name, change := range map[string]func(*Offer){
		"another CA":       func(o *Offer) { o.CABundle = newBundle(t) },
		"another endpoint": func(o *Offer) { o.Endpoint = "evil.example:8443" },
		"another name":     func(o *Offer) { o.Name = "bank" },
		"another seal":     func(o *Offer) { o.Seal = bytes.Repeat([]byte{1}, sha256.Size) },
	} {
		forged := honest
		change(&forged)
		after, err := Redeem(records, token.ID(), token.Key(), forged, tokenTime)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := token.Offered(after, tokenTime); got != nil || !errors.Is(err, ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOfferCheck(t *testing.T) {
	token := newToken(t)
	for name, change := range map[string]func(*Offer){
		"no CA":        func(o *Offer) { o.CABundle = nil },
		"no CA's":      func(o *Offer) { o.CABundle = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n") },
		"long":         func(o *Offer) { o.CABundle = bytes.Repeat(o.CABundle, 30) },
		"bad name":     func(o *Offer) { o.Name = "../x" },
		"bad endpoint": func(o *Offer) { o.Endpoint = "evil.example:8443/path" },
		"no seal":      func(o *Offer) { o.Seal = nil },
	} {
		o := offer(t, token, newBundle(t))
		change(&o)
		if err := o.Check(); !errors.Is(err, ErrOffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecordsAreBounded: no more than so many tokens are kept, and those that are over, or cannot be read, make space.
func TestRecordsAreBounded(t *testing.T) {
	records := map[string][]byte{
		"not hex": []byte("{}"), "0011223344556677": []byte("{"), "00": []byte(`{"expires":"2099-01-01T00:00:00Z"}`),
	}
	var err error
	for i := range maxRecords + 1 {
		added, failed := newToken(t).Add(records, tokenTime)
		if failed == nil {
			records = added
		}
		if (failed != nil) != (i == maxRecords) || failed != nil && !errors.Is(failed, ErrTooMany) {
			t.Fatalf("%d: %v", i, failed)
		}
	}
	if len(records) != maxRecords {
		t.Errorf("%d records", len(records))
	}
	late := tokenTime.Add(TokenLifetime)
	if _, err = newToken(t).Add(records, late.Add(-time.Minute)); err == nil {
		t.Error("records that are not over made space")
	}
	if records, err = newToken(t).Add(map[string][]byte{}, late); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// FuzzRedeem: what a Secret and a request may hold is bounded and breaks nothing; nothing is redeemed without the key.
func FuzzRedeem(f *testing.F) {
	token := newToken(f)
	records, err := token.Add(nil, tokenTime)
	if err != nil {
		f.Fatal(err)
	}
	for key, content := range records {
		f.Add(key, content, token.ID(), []byte("key"))
	}
	f.Fuzz(func(t *testing.T, name string, content, id, key []byte) {
		records := map[string][]byte{name: content}
		after, err := Redeem(records, id, key, Offer{}, tokenTime)
		var r Record
		if err == nil && (json.Unmarshal(content, &r) != nil || r.Hash != hashOf(key)) {
			t.Errorf("redeemed: %v", after)
		}
		_, _ = token.Offered(records, tokenTime)
		_ = Prune(records, tokenTime)
	})
}
