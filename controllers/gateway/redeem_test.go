// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

const operator = "lighterage-system"

// stranger is somebody whom no Peer vouches for.
func stranger(t *testing.T) tls.Certificate {
	t.Helper()
	return issue(t, newCA(t, "stranger"), manager("stranger"), time.Now())
}

// linkToken makes a token of a cluster at a time.
func linkToken(t *testing.T, at time.Time) *link.Token {
	t.Helper()
	token, err := link.NewToken("west", "gateway.west.example:8443", sha256.Sum256(westCA().Certificate.Raw), at)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// linksOf is the Secret with the tokens.
func linksOf(t *testing.T, at time.Time, tokens ...*link.Token) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: link.SecretName}}
	for _, token := range tokens {
		data, err := token.Add(secret.Data, at)
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = data
	}
	return secret
}

func redemption(token *link.Token, bundle []byte) *wirev1.RedeemRequest {
	o := link.Offer{Name: "east", Endpoint: "gateway.east.example:8443", CABundle: bundle}
	token.Seal(&o)
	return &wirev1.RedeemRequest{
		TokenId: token.ID(), Key: token.Key(), Name: o.Name, Endpoint: o.Endpoint, CaBundle: o.CABundle, Seal: o.Seal,
	}
}

// offered is what was handed in with a token.
func (w *west) offered(token *link.Token) (*link.Offer, error) {
	w.t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: operator, Name: link.SecretName}
	if err := w.api.Get(context.Background(), key, secret); err != nil {
		w.t.Fatal(err)
	}
	return token.Offered(secret.Data, time.Now())
}

// TestAuthority: anybody is told the CA.
func TestAuthority(t *testing.T) {
	w := newWest(t, nil)
	answer, err := w.dial(stranger(t)).Authority(context.Background(), &wirev1.AuthorityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := pki.ParseBundle(answer.GetCaBundle())
	if err != nil || len(certificates) != 1 || !certificates[0].Equal(w.ca.Certificate) {
		t.Errorf("%v: %d certificates", err, len(certificates))
	}
}

// TestRedeem: a stranger redeems a token once. Every other token is rejected with the same words, whatever is wrong.
func TestRedeem(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	east := newCA(t, "east").CertificatePEM
	token, expired, other := linkToken(t, now), linkToken(t, now.Add(-20*time.Minute)), linkToken(t, now)
	var log bytes.Buffer
	var mu sync.Mutex
	clock := clocktesting.NewFakePassiveClock(now)
	w := newWest(t, func(o *gateway.Options) {
		o.Namespace, o.Clock = operator, clock
		o.Log = funcr.NewJSON(func(line string) {
			mu.Lock()
			defer mu.Unlock()
			log.WriteString(line + "\n")
		}, funcr.Options{})
	}, linksOf(t, now.Add(-20*time.Minute), expired, token))
	c := w.dial(stranger(t))
	wrong := redemption(token, east)
	wrong.Key = other.Key()
	words := map[string]bool{}
	reject := func(name string, request *wirev1.RedeemRequest) {
		t.Helper()
		_, err := c.Redeem(ctx, request)
		words[refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)] = true
		if status.Code(err) != codes.PermissionDenied || len(words) != 1 {
			t.Errorf("%s: %v: %v", name, err, words)
		}
	}
	reject("unknown", redemption(other, east))
	reject("expired", redemption(expired, east))
	reject("another key", wrong)
	if offer, err := w.offered(token); offer != nil || err != nil {
		t.Fatalf("%+v, %v", offer, err)
	}
	answer, err := c.Redeem(ctx, redemption(token, east))
	if err != nil || answer.GetVersion() == "" {
		t.Fatal(err)
	}
	offer, err := w.offered(token)
	if err != nil || offer.Name != "east" || offer.Endpoint != "gateway.east.example:8443" ||
		!bytes.Equal(offer.CABundle, east) {
		t.Errorf("%+v, %v", offer, err)
	}
	reject("used", redemption(token, east))
	for name, change := range map[string]func(*wirev1.RedeemRequest){
		"no CA":        func(r *wirev1.RedeemRequest) { r.CaBundle = nil },
		"bad endpoint": func(r *wirev1.RedeemRequest) { r.Endpoint = "x" },
		"bad name":     func(r *wirev1.RedeemRequest) { r.Name = "a/b" },
		"no seal":      func(r *wirev1.RedeemRequest) { r.Seal = nil },
	} {
		request := redemption(other, east)
		change(request)
		if _, err := c.Redeem(ctx, request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	text := log.String()
	if !strings.Contains(text, `"msg":"Link token redeemed"`) || !strings.Contains(text, hex.EncodeToString(token.ID())) ||
		!strings.Contains(text, `"method":"Redeem"`) {
		t.Errorf("the audit trail lacks it:\n%s", text)
	}
	for _, secret := range [][]byte{token.Key(), other.Key(), expired.Key()} {
		if strings.Contains(text, hex.EncodeToString(secret)) || strings.Contains(text, string(secret)) {
			t.Error("a key is in the log")
		}
	}
}

// TestRedeemWithoutSecret: where no Secret is, as with a chart of an earlier release, tokens are rejected as ever.
func TestRedeemWithoutSecret(t *testing.T) {
	w := newWest(t, func(o *gateway.Options) { o.Namespace = operator })
	_, err := w.dial(stranger(t)).Redeem(
		context.Background(), redemption(linkToken(t, time.Now()), newCA(t, "east").CertificatePEM),
	)
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
}

// TestRedeemAtOnce: of many who redeem one token at the same time one wins, and nothing of other tokens is lost.
func TestRedeemAtOnce(t *testing.T) {
	now := time.Now()
	token, other := linkToken(t, now), linkToken(t, now)
	w := newWest(t, func(o *gateway.Options) { o.Namespace = operator }, linksOf(t, now, token, other))
	east, north := newCA(t, "east").CertificatePEM, newCA(t, "north").CertificatePEM
	errs := make(chan error, 9)
	for i := range 9 {
		c := w.dial(stranger(t))
		request := redemption(token, east)
		if i == 0 {
			request = redemption(other, north)
		}
		go func() {
			_, err := c.Redeem(context.Background(), request)
			errs <- err
		}()
	}
	won := 0
	for range 9 {
		switch err := <-errs; status.Code(err) {
		case codes.OK:
			won++
		case codes.PermissionDenied, codes.Unavailable:
		default:
			t.Error(err)
		}
	}
	if won < 1 || won > 2 {
		t.Errorf("%d won", won)
	}
	if offer, err := w.offered(token); err != nil || offer == nil {
		t.Errorf("%+v, %v", offer, err)
	}
}

// TestRedeemIsLimited: strangers together may ask as often as strangers may, and then learn nothing of any token.
func TestRedeemIsLimited(t *testing.T) {
	now := time.Now()
	token := linkToken(t, now)
	w := newWest(t, func(o *gateway.Options) {
		o.Namespace, o.RequestsPerSecond, o.RequestBurst = operator, 0.0001, 3
	}, linksOf(t, now, token))
	c := w.dial(stranger(t))
	east := newCA(t, "east").CertificatePEM
	for i := range 5 {
		_, err := c.Redeem(context.Background(), redemption(linkToken(t, now), east))
		if throttled := status.Code(err) == codes.Unavailable; throttled != (i >= 3) {
			t.Errorf("%d: %v", i, err)
		}
	}
	for name, call := range map[string]func() error{
		"a token that is valid": func() error {
			_, err := w.dial(stranger(t)).Redeem(context.Background(), redemption(token, east))
			return err
		},
		"the CA": func() error {
			_, err := w.dial(stranger(t)).Authority(context.Background(), &wirev1.AuthorityRequest{})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if offer, err := w.offered(token); offer != nil || err != nil {
		t.Errorf("%+v, %v", offer, err)
	}
}
