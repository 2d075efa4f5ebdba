// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/receipt"
)

var signed = time.Date(2026, 11, 23, 21, 0, 0, 0, time.UTC)

// key is the same one each time.
func key(seed byte) receipt.PrivateKey {
	return receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

var east, west = key(1), key(2)

func keySet(keys ...receipt.PrivateKey) *receipt.KeySet {
	set := &receipt.KeySet{}
	for _, k := range keys {
		set.Keys = append(set.Keys, receipt.PublicKey{
			KeyID: k.ID(), Cluster: "any", NotBefore: receipt.At(signed.Add(-time.Hour)),
			NotAfter: receipt.At(signed.Add(365 * 24 * time.Hour)),
		})
	}
	return set
}

func anchors() receipt.Anchors { return receipt.Anchors{Sender: keySet(east), Receiver: keySet(west)} }

func party(k receipt.PrivateKey, cluster string) receipt.Party {
	return receipt.Party{
		Cluster: cluster, KeyID: k.ID(), Peer: "other",
		Run:       receipt.Run{Namespace: "bank", Transfer: "ledger", ID: "7f3c1", Attempt: 2},
		Namespace: "bank", Claim: "ledger", Path: "/",
		StartTime: receipt.At(signed.Add(-time.Minute)), CompletionTime: receipt.At(signed), SignedTime: receipt.At(signed),
		Contents: receipt.Contents{
			Format: receipt.ContentsFormat, SHA256: strings.Repeat("ab", 32), Entries: 4000, Bytes: 30 << 30,
		},
		Scope: receipt.ScopeAttempt, WireBytes: 5 << 30, Files: 3990, Bytes: 30 << 30, CPUSeconds: "6.6",
		CodecSeconds: "1.9", DigestSeconds: "17.1",
	}
}

func sender() receipt.Sender {
	return receipt.Sender{
		Party: party(east, "east"), UID: "0b0f", Codec: "deflate", Engine: "dfltcc", Level: "Fast",
		UncompressedBytes: 30 << 30, CompressedBytes: 5 << 30, HardwareBytes: 30 << 30,
	}
}

// receiver has a clock that is a day behind.
func receiver() receipt.Receiver {
	part := receipt.Receiver{Party: party(west, "west"), SoftwareBytes: 30 << 30}
	for _, t := range []*receipt.Time{&part.StartTime, &part.CompletionTime, &part.SignedTime} {
		*t = receipt.At(t.Add(-24 * time.Hour))
	}
	return part
}

// dayBehind are anchors of a cluster whose clock is a day behind.
func dayBehind() receipt.Anchors {
	a := anchors()
	a.Receiver.Keys[0].NotBefore = receipt.At(signed.Add(-25 * time.Hour))
	return a
}

func offer(t *testing.T) []byte {
	t.Helper()
	b, err := receipt.Offer(sender(), receiver(), east)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func complete(t *testing.T) []byte {
	t.Helper()
	b, err := receipt.Countersign(offer(t), receiver(), west)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReceipt(t *testing.T) {
	b := complete(t)
	if len(b) > 8<<10 {
		t.Errorf("it has %d bytes", len(b))
	}
	if !bytes.Equal(b, complete(t)) {
		t.Error("signing again gives something else")
	}
	if err := receipt.Complete(offer(t), b); err != nil {
		t.Error(err)
	}
	statement, err := receipt.Verify(b, dayBehind())
	if err != nil {
		t.Fatal(err)
	}
	if statement.Predicate.Sender != sender() || statement.Predicate.Receiver != receiver() {
		t.Errorf("it states %+v", statement)
	}
	own, err := receipt.Offered(offer(t))
	if err != nil || *own != receiver() {
		t.Errorf("the offer has %+v, %v", own, err)
	}
}

// Every byte counts, of the envelope as well as of the payload.
func TestFlippedBytes(t *testing.T) {
	b := complete(t)
	for i := range b {
		for _, mask := range []byte{0x01, 0x20, 0x80} {
			damaged := bytes.Clone(b)
			damaged[i] ^= mask
			if _, err := receipt.Verify(damaged, dayBehind()); err == nil {
				t.Fatalf("byte %d may be %q instead of %q", i, damaged[i], b[i])
			}
		}
		if _, err := receipt.Verify(b[:i], dayBehind()); err == nil {
			t.Fatalf("%d of %d bytes are enough", i, len(b))
		}
	}
	if _, err := receipt.Verify(append(bytes.Clone(b), '\n'), dayBehind()); err == nil {
		t.Error("a further byte is accepted")
	}
}

// change makes another envelope of a receipt.
func change(t *testing.T, b []byte, do func(*receipt.Envelope)) []byte {
	t.Helper()
	var e receipt.Envelope
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	do(&e)
	changed, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestRejected(t *testing.T) {
	expired, early, swapped := dayBehind(), dayBehind(), receipt.Anchors{Sender: keySet(west), Receiver: keySet(east)}
	expired.Sender.Keys[0].NotAfter = receipt.At(signed.Add(-time.Second))
	early.Receiver.Keys[0].NotBefore = receipt.At(signed)
	for name, test := range map[string]struct {
		receipt []byte
		anchors receipt.Anchors
		want    error
	}{
		"no anchors":        {complete(t), receipt.Anchors{}, receipt.ErrUnknownKey},
		"wrong anchors":     {complete(t), receipt.Anchors{Sender: keySet(key(3)), Receiver: keySet(west)}, receipt.ErrUnknownKey},
		"swapped anchors":   {complete(t), swapped, receipt.ErrUnknownKey},
		"expired key":       {complete(t), expired, receipt.ErrExpiredKey},
		"key not valid yet": {complete(t), early, receipt.ErrExpiredKey},
		"one signature":     {offer(t), dayBehind(), receipt.ErrSignature},
		"swapped signatures": {change(t, complete(t), func(e *receipt.Envelope) {
			e.Signatures[0], e.Signatures[1] = e.Signatures[1], e.Signatures[0]
		}), dayBehind(), receipt.ErrSignature},
		"swapped roles": {change(t, complete(t), func(e *receipt.Envelope) {
			e.Signatures[0].Sig, e.Signatures[1].Sig = e.Signatures[1].Sig, e.Signatures[0].Sig
		}), dayBehind(), receipt.ErrSignature},
		"the second twice": {change(t, complete(t), func(e *receipt.Envelope) { e.Signatures[0] = e.Signatures[1] }), dayBehind(), receipt.ErrSignature},
		"three signatures": {change(t, complete(t), func(e *receipt.Envelope) {
			e.Signatures = append(e.Signatures, e.Signatures[1])
		}), dayBehind(), receipt.ErrSignature},
		"another payload type": {change(t, complete(t), func(e *receipt.Envelope) { e.PayloadType = "text/plain" }), dayBehind(), receipt.ErrMalformed},
		"unknown field":        {bytes.Replace(complete(t), []byte(`{"payloadType"`), []byte(`{"x":1,"payloadType"`), 1), dayBehind(), receipt.ErrMalformed},
		"duplicate field": {bytes.Replace(complete(t), []byte(`{"payloadType"`), []byte(`{"payloadType":"x","payloadType"`),
			1),
			dayBehind(), receipt.ErrMalformed},
		"another case": {bytes.Replace(complete(t), []byte(`"payloadType"`), []byte(`"PayloadType"`), 1), dayBehind(), receipt.ErrMalformed},
		"oversize":     {append(complete(t), bytes.Repeat([]byte{' '}, receipt.MaxBytes)...), dayBehind(), receipt.ErrMalformed},
		"nothing":      {nil, dayBehind(), receipt.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := receipt.Verify(test.receipt, test.anchors); !errors.Is(err, test.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What the payload may not be, even if its signers say so.
func TestPayloads(t *testing.T) {
	var envelope receipt.Envelope
	if err := json.Unmarshal(complete(t), &envelope); err != nil {
		t.Fatal(err)
	}
	good := string(envelope.Payload)
	for name, payload := range map[string]string{
		"unknown field":  strings.Replace(good, `{"_type"`, `{"more":1,"_type"`, 1),
		"unknown deeper": strings.Replace(good, `"uid"`, `"more":1,"uid"`, 1),
		"duplicate":      strings.Replace(good, `"uid"`, `"uid":"x","uid"`, 1),
		"another type":   strings.Replace(good, receipt.PredicateType, "https://lighterage.dev/receipt/v2", 1),
		"another format": strings.ReplaceAll(good, receipt.ContentsFormat, "lighterage-contents-v2"),
		"negative":       strings.Replace(good, `"wireBytes":`, `"wireBytes":-`, 1),
		"another time":   strings.Replace(good, `2026-11-23T21:00:00Z`, `2026-11-23T22:00:00+01:00`, 1),
		"other contents": strings.Replace(good, strings.Repeat("ab", 32), strings.Repeat("cd", 32), 1),
		"upper case":     strings.ReplaceAll(good, strings.Repeat("ab", 32), strings.Repeat("AB", 32)),
		"another run":    strings.Replace(good, `"id":"7f3c1"`, `"id":"7f3c2"`, 1),
		"long text":      strings.Replace(good, `"uid":"`, `"uid":"`+strings.Repeat("x", 5000), 1),
		"another scope":  strings.Replace(good, `"scope":"attempt"`, `"scope":"year"`, 1),
		"no scope":       strings.Replace(good, `"scope":"attempt",`, ``, 1),
		"no JSON":        "receipt",
	} {
		t.Run(name, func(t *testing.T) {
			if payload == good {
				t.Fatal("the payload is as it was")
			}
			b, err := receipt.Sign([]byte(payload), east, west)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := receipt.Verify(b, dayBehind()); !errors.Is(err, receipt.ErrMalformed) &&
				!errors.Is(err, receipt.ErrContradiction) {
				t.Errorf("%v", err)
			}
		})
	}
	b, err := receipt.Sign([]byte(good), east, west)
	if err != nil || !bytes.Equal(b, complete(t)) {
		t.Errorf("the same payload gives another receipt: %v", err)
	}
}

// The receiving cluster signs nothing but its own part, of the run that it received.
func TestCountersignRejects(t *testing.T) {
	for name, do := range map[string]func(*receipt.Sender, *receipt.Receiver){
		"another run":      func(s *receipt.Sender, r *receipt.Receiver) { s.Run.ID, r.Run.ID = "7f3c2", "7f3c2" },
		"another attempt":  func(s *receipt.Sender, r *receipt.Receiver) { s.Run.Attempt, r.Run.Attempt = 3, 3 },
		"other bytes":      func(_ *receipt.Sender, r *receipt.Receiver) { r.WireBytes++ },
		"another time":     func(_ *receipt.Sender, r *receipt.Receiver) { r.SignedTime = receipt.At(signed) },
		"another key":      func(_ *receipt.Sender, r *receipt.Receiver) { r.KeyID = key(3).ID() },
		"other contents":   func(s *receipt.Sender, r *receipt.Receiver) { s.Contents.Bytes++; r.Contents.Bytes++ },
		"another claim":    func(_ *receipt.Sender, r *receipt.Receiver) { r.Claim = "other" },
		"another cluster":  func(_ *receipt.Sender, r *receipt.Receiver) { r.Cluster = "north" },
		"another CPU time": func(_ *receipt.Sender, r *receipt.Receiver) { r.CPUSeconds = "1" },
	} {
		t.Run(name, func(t *testing.T) {
			s, r := sender(), receiver()
			do(&s, &r)
			b, err := receipt.Offer(s, r, east)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := receipt.Countersign(b, receiver(), west); !errors.Is(err, receipt.ErrContradiction) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := receipt.Countersign(complete(t), receiver(), west); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("a receipt with both signatures: %v", err)
	}
	if _, err := receipt.Countersign(offer(t), receiver(), key(3)); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("with another key: %v", err)
	}
}

// A receiver that answers with another receipt does not get it kept.
func TestCompleteRejects(t *testing.T) {
	s := sender()
	s.CPUSeconds = "7"
	other, err := receipt.Offer(s, receiver(), east)
	if err != nil {
		t.Fatal(err)
	}
	if other, err = receipt.Countersign(other, receiver(), west); err != nil {
		t.Fatal(err)
	}
	if err := receipt.Complete(offer(t), other); !errors.Is(err, receipt.ErrContradiction) {
		t.Errorf("another receipt of the same run: %v", err)
	}
	if err := receipt.Complete(offer(t), offer(t)); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("one signature: %v", err)
	}
}

func TestOfferRejects(t *testing.T) {
	r := receiver()
	r.Contents.SHA256 = strings.Repeat("cd", 32)
	if _, err := receipt.Offer(sender(), r, east); !errors.Is(err, receipt.ErrContradiction) {
		t.Errorf("other contents: %v", err)
	}
	if _, err := receipt.Offer(sender(), receiver(), west); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	long := receiver()
	long.Path, long.Claim, long.Peer, long.Cluster = strings.Repeat("/", 4096), strings.Repeat("c", 4096),
		strings.Repeat("p", 4096), strings.Repeat("c", 4096)
	if _, err := receipt.Offer(sender(), long, east); !errors.Is(err, receipt.ErrMalformed) {
		t.Errorf("oversize: %v", err)
	}
}

// A receiver that names the sender's key would need no key of its own: the sender's signature would do as both.
func TestOneKeyOfTwoClusters(t *testing.T) {
	r := receiver()
	r.KeyID = east.ID()
	if _, err := receipt.Offer(sender(), r, east); !errors.Is(err, receipt.ErrContradiction) {
		t.Errorf("the sender signs: %v", err)
	}
	twice := change(t, complete(t), func(e *receipt.Envelope) {
		e.Payload = bytes.ReplaceAll(e.Payload, []byte(west.ID()), []byte(east.ID()))
	})
	var envelope receipt.Envelope
	if err := json.Unmarshal(twice, &envelope); err != nil {
		t.Fatal(err)
	}
	twice, err := receipt.Sign(envelope.Payload, east, east)
	if err != nil {
		t.Fatal(err)
	}
	a := dayBehind()
	a.Receiver = &receipt.KeySet{Keys: append(keySet(east).Keys, a.Receiver.Keys...)}
	a.Receiver.Keys[0].NotBefore = receipt.At(signed.Add(-48 * time.Hour))
	if _, err := receipt.Verify(twice, a); !errors.Is(err, receipt.ErrContradiction) {
		t.Errorf("one signature twice: %v", err)
	}
	s := sender()
	s.Peer, r.Peer = "", ""
	if _, err := receipt.Offer(s, r, east); err != nil {
		t.Errorf("within a cluster: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	s := sender()
	owns := func(id string) bool { return id == east.ID() }
	if err := receipt.Adopt(complete(t), s.Run, s.UID, s.Contents, owns); err != nil {
		t.Error(err)
	}
	other := s.Run
	other.ID = "x"
	for name, err := range map[string]error{
		"run":      receipt.Adopt(complete(t), other, s.UID, s.Contents, owns),
		"UID":      receipt.Adopt(complete(t), s.Run, "x", s.Contents, owns),
		"contents": receipt.Adopt(complete(t), s.Run, s.UID, receipt.Contents{}, owns),
		"key":      receipt.Adopt(complete(t), s.Run, s.UID, s.Contents, func(string) bool { return false }),
	} {
		if !errors.Is(err, receipt.ErrContradiction) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestKeySet(t *testing.T) {
	b, err := keySet(east, west).Encode()
	if err != nil {
		t.Fatal(err)
	}
	set, err := receipt.ParseKeySet(b)
	if err != nil || len(set.Keys) != 2 || set.Find(west.ID()) == nil || set.Find(key(3).ID()) != nil {
		t.Errorf("%+v, %v", set, err)
	}
	twice, err := keySet(east, east).Encode()
	if err != nil {
		t.Fatal(err)
	}
	never := keySet(east)
	never.Keys[0].NotAfter = never.Keys[0].NotBefore
	empty, err := never.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"twice": twice, "never valid": empty, "no key": bytes.Replace(b, []byte(east.ID()), []byte("00"), 1),
		"unknown field": bytes.Replace(b, []byte(`"cluster"`), []byte(`"name": "", "cluster"`), 1), "nothing": nil,
	} {
		if _, err := receipt.ParseKeySet(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever comes, nothing but what both have signed verifies.
func FuzzVerify(f *testing.F) {
	o, err := receipt.Offer(sender(), receiver(), east)
	if err != nil {
		f.Fatal(err)
	}
	good, err := receipt.Countersign(o, receiver(), west)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(o)
	f.Add([]byte(`{"payloadType":"","payload":"","signatures":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := receipt.Verify(b, dayBehind()); err == nil && !bytes.Equal(b, good) {
			t.Errorf("%q verifies", b)
		}
		_, _ = receipt.ParseKeySet(b)
	})
}

// What a peer says of itself is bounded, and is written as it was read.
func FuzzParseReceiver(f *testing.F) {
	part := receiver()
	good, err := part.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		part, err := receipt.ParseReceiver(b)
		if err != nil {
			return
		}
		again, err := part.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := receipt.ParseReceiver(again); err != nil || *second != *part {
			t.Errorf("%q becomes %q: %v", b, again, err)
		}
	})
}
