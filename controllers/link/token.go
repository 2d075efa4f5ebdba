// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// TokenPrefix begins every token, so that people and programs that look for secrets recognise one.
	TokenPrefix = "lighterage-link-"
	// TokenLifetime is how long a token can be redeemed.
	TokenLifetime = 15 * time.Minute
	// KeepOffer is how long what was handed in with a token is kept.
	KeepOffer = 24 * time.Hour

	// SecretName is that of the Secret in the operator's namespace that holds the Records. Its keys are ids of tokens.
	SecretName = "lighterage-links"

	// idBytes and keyBytes are the lengths of the parts of a token.
	idBytes, keyBytes = 8, 32
	// maxRecords bounds the Secret, and maxToken, maxRecord, maxBundle and maxEndpoint what is read.
	maxRecords  = 32
	maxToken    = 1024
	maxRecord   = 24 << 10
	maxBundle   = 8 << 10
	maxEndpoint = 261
	// tokenVersion is the first byte of a token.
	tokenVersion = 1
)

var (
	// ErrToken is returned for what is no token.
	ErrToken = errors.New("this is no link token")
	// ErrRejected is returned for a token that is unknown, expired, used already, or altered. It does not say which.
	ErrRejected = errors.New("the link token is not valid")
	// ErrOffer is returned for what cannot be a cluster.
	ErrOffer = errors.New("the description of the cluster is not valid")
	// ErrTooMany is returned when there are as many tokens as are kept.
	ErrTooMany = errors.New("there are too many link tokens")
)

// endpointForm is that of spec.endpoint of a Peer.
var endpointForm = regexp.MustCompile(`^([a-zA-Z0-9.-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$`)

// ValidEndpoint reports whether a text has the form of spec.endpoint of a Peer.
func ValidEndpoint(text string) bool {
	return len(text) <= maxEndpoint && endpointForm.MatchString(text)
}

// Token lets whoever has it make two clusters known to each other, once. What is derived from its secret does two
// things: the key is shown to the gateway, which knows its hash; the seal proves to who made the token that what was
// handed in is from who was given it, and not from the gateway, which never sees the secret.
type Token struct {
	id     [idBytes]byte
	secret [keyBytes]byte
	// CAFingerprint is the SHA-256 of the certificate of the CA that vouches for the gateway.
	CAFingerprint [sha256.Size]byte
	// Expires is when the gateway does not take it any more.
	Expires time.Time
	// Name that the cluster proposes for itself; it may be empty.
	Name string
	// Endpoint of its gateway.
	Endpoint string
}

// Offer is how a cluster is to be known, as it was handed in with a token.
type Offer struct {
	Name     string `json:"name,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	CABundle []byte `json:"caBundle"`
	// Seal proves that it is from who was given the token.
	Seal []byte `json:"seal"`
}

// Record is what is kept of a token: at first the hash of its key, and then what was handed in with it.
type Record struct {
	Hash    string    `json:"hash,omitempty"`
	Expires time.Time `json:"expires"`
	Offer   *Offer    `json:"offer,omitempty"`
}

// NewToken makes a token for a cluster.
func NewToken(name, endpoint string, ca [sha256.Size]byte, now time.Time) (*Token, error) {
	t := &Token{
		CAFingerprint: ca, Expires: now.Add(TokenLifetime).UTC().Truncate(time.Second), Name: name, Endpoint: endpoint,
	}
	if _, err := rand.Read(t.id[:]); err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	if _, err := rand.Read(t.secret[:]); err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	return t, t.check()
}

func (t *Token) check() error {
	if t.Name != "" && len(validation.IsDNS1123Label(t.Name)) > 0 {
		return fmt.Errorf("%w: the name in it is none of a Peer", ErrToken)
	}
	if !ValidEndpoint(t.Endpoint) {
		return fmt.Errorf("%w: the endpoint in it is not host:port", ErrToken)
	}
	return nil
}

// Encode writes the token, which is a secret, as text. There is no method String, so that nothing logs it.
func (t *Token) Encode() string {
	var b bytes.Buffer
	b.WriteByte(tokenVersion)
	_ = binary.Write(&b, binary.BigEndian, t.Expires.Unix()) // to memory
	b.Write(t.id[:])
	b.Write(t.secret[:])
	b.Write(t.CAFingerprint[:])
	b.WriteByte(byte(len(t.Name)))
	b.WriteString(t.Name)
	b.WriteString(t.Endpoint)
	_ = binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(b.Bytes()))
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// ParseToken reads what Encode has written. Its error wraps ErrToken.
func ParseToken(text string) (*Token, error) {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, TokenPrefix)
	if !ok || len(text) > maxToken {
		return nil, fmt.Errorf("%w: it does not begin with %s, or is too long; copy it whole", ErrToken, TokenPrefix)
	}
	content, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	const fixed = 1 + 8 + idBytes + keyBytes + sha256.Size + 1
	if err != nil || len(content) < fixed+crc32.Size || strings.ContainsAny(rest, "\r\n") { // which the decoder skips
		return nil, fmt.Errorf("%w: it is damaged or not whole; copy it again", ErrToken)
	}
	body, sum := content[:len(content)-crc32.Size], content[len(content)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: it is damaged or not whole; copy it again", ErrToken)
	}
	if body[0] != tokenVersion {
		return nil, fmt.Errorf("%w: it is of version %d, and this program knows %d; use the newer program", ErrToken, body[0],
			tokenVersion)
	}
	t := &Token{}
	next := func(length int) []byte {
		part := body[:length]
		body = body[length:]
		return part
	}
	next(1)
	seconds := int64(binary.BigEndian.Uint64(next(8))) //nolint:gosec // it is compared with times only
	copy(t.id[:], next(idBytes))
	copy(t.secret[:], next(keyBytes))
	copy(t.CAFingerprint[:], next(sha256.Size))
	length := int(next(1)[0])
	if seconds < 0 || seconds > 1<<40 || length > len(body) {
		return nil, fmt.Errorf("%w: its fields cannot be", ErrToken)
	}
	t.Expires = time.Unix(seconds, 0).UTC()
	t.Name, t.Endpoint = string(next(length)), string(body)
	return t, t.check()
}

// ID names the token. It is no secret.
func (t *Token) ID() []byte { return bytes.Clone(t.id[:]) }

// Key is what a gateway is shown.
func (t *Token) Key() []byte { return t.derive("key") }

// derive makes a key for one use out of the secret.
func (t *Token) derive(use string) []byte {
	mac := hmac.New(sha256.New, t.secret[:])
	mac.Write([]byte("lighterage link token: " + use))
	return mac.Sum(nil)
}

// Seal proves that an offer is from who has the token.
func (t *Token) Seal(o *Offer) {
	o.Seal = t.seal(o)
}

// Sealed reports whether an offer is from who has the token.
func (t *Token) Sealed(o *Offer) bool { return hmac.Equal(t.seal(o), o.Seal) }

func (t *Token) seal(o *Offer) []byte {
	mac := hmac.New(sha256.New, t.derive("seal"))
	for _, part := range [][]byte{t.id[:], []byte(o.Name), []byte(o.Endpoint), o.CABundle} {
		_ = binary.Write(mac, binary.BigEndian, uint64(len(part))) // a hash takes everything
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Record is what the cluster keeps of the token.
func (t *Token) Record() Record { return Record{Hash: hashOf(t.Key()), Expires: t.Expires} }

func hashOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// Check returns an error, which wraps ErrOffer, for what cannot be a cluster.
func (o *Offer) Check() error {
	switch {
	case o.Name != "" && len(validation.IsDNS1123Label(o.Name)) > 0:
		return fmt.Errorf("%w: the name is none of a Peer", ErrOffer)
	case o.Endpoint != "" && !ValidEndpoint(o.Endpoint):
		return fmt.Errorf("%w: the endpoint is not host:port", ErrOffer)
	case len(o.CABundle) > maxBundle || len(o.Seal) != sha256.Size:
		return fmt.Errorf("%w: it is too long, or its seal has another length", ErrOffer)
	}
	if _, err := pki.ParseBundle(o.CABundle); err != nil {
		return fmt.Errorf("%w: %w", ErrOffer, err)
	}
	return nil
}

// Add adds the record of a token to those of a cluster, and removes those that are over.
func (t *Token) Add(records map[string][]byte, now time.Time) (map[string][]byte, error) {
	kept := Prune(records, now)
	if len(kept) >= maxRecords {
		return nil, fmt.Errorf("%w: %d; each ends %s after it was made, or %s after it was redeemed", ErrTooMany, len(kept),
			TokenLifetime, KeepOffer)
	}
	return put(kept, t.id[:], t.Record())
}

// Remove removes what is kept of a token.
func (t *Token) Remove(records map[string][]byte, now time.Time) map[string][]byte {
	kept := Prune(records, now)
	delete(kept, hex.EncodeToString(t.id[:]))
	return kept
}

// Offered returns what was handed in with the token; nil while nothing was. The error wraps ErrRejected where the token
// is over, or where what was handed in is not from who has it.
func (t *Token) Offered(records map[string][]byte, now time.Time) (*Offer, error) {
	r, ok := read(records, t.id[:])
	switch {
	case !ok || now.After(r.Expires):
		return nil, fmt.Errorf("%w: nobody redeemed it in time, or it was accepted already; make another one", ErrRejected)
	case r.Offer == nil:
		return nil, nil
	case r.Offer.Check() != nil || !t.Sealed(r.Offer):
		return nil, fmt.Errorf("%w: what was handed in with it is not from who has it. Somebody else changed it on the "+
			"way, such as the gateway; find out who, and make another one", ErrRejected)
	}
	return r.Offer, nil
}

// Redeem is what the gateway does: it exchanges what is kept of a token for what is handed in. It changes nothing in
// records, and takes as long for each token that is not valid. The error is ErrRejected.
func Redeem(records map[string][]byte, id, key []byte, o Offer, now time.Time) (map[string][]byte, error) {
	r, known := read(records, id)
	held, want := []byte(hashOf(key)), []byte(strings.Repeat("0", 2*sha256.Size))
	if known && len(r.Hash) == len(want) {
		want = []byte(r.Hash)
	}
	same := subtle.ConstantTimeCompare(held, want) == 1
	if !known || !same || r.Offer != nil || !now.Before(r.Expires) {
		return nil, ErrRejected
	}
	return put(Prune(records, now), id, Record{Expires: now.Add(KeepOffer).UTC().Truncate(time.Second), Offer: &o})
}

// Prune returns the records that are not over and can be read.
func Prune(records map[string][]byte, now time.Time) map[string][]byte {
	kept := map[string][]byte{}
	for key, content := range records {
		id, err := hex.DecodeString(key)
		if err != nil {
			continue
		}
		if r, ok := read(records, id); ok && now.Before(r.Expires) {
			kept[key] = content
		}
	}
	return kept
}

func read(records map[string][]byte, id []byte) (Record, bool) {
	content := records[hex.EncodeToString(id)]
	if len(id) != idBytes || len(content) == 0 || len(content) > maxRecord {
		return Record{}, false
	}
	var r Record
	if err := json.Unmarshal(content, &r); err != nil {
		return Record{}, false
	}
	return r, true
}

func put(records map[string][]byte, id []byte, r Record) (map[string][]byte, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing what is kept of a link token: %w", err)
	}
	records[hex.EncodeToString(id)] = content
	return records, nil
}
