// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles says what each client of a queue may do, whichever protocol it speaks: it is the one place that
// decides.
package roles

import (
	"crypto/sha256"
	"crypto/x509"
	"maps"
	"strings"
)

// Operations that a client may do. None is what somebody has who does not authenticate.
type Operations uint8

// The operations. A client with Get may do with messages all that Put does not cover: get, acknowledge, browse, and
// make and remove consumers.
const (
	Put Operations = 1 << iota
	Get

	None Operations = 0
	All             = Put | Get
)

// String returns the names that the API has, separated by commas.
func (o Operations) String() string {
	var names []string
	if o&Put != 0 {
		names = append(names, "Put")
	}
	if o&Get != 0 {
		names = append(names, "Get")
	}
	return strings.Join(names, ",")
}

// Request is a kind of what clients ask for.
type Request uint8

// The requests. Whatever is none of these nobody may ask for.
const (
	Unknown Request = iota
	// Publish a message.
	Publish
	// Consume messages: get them, listen to them, make, change and remove consumers.
	Consume
	// Settle messages that were got: acknowledge, extend, release and reject them.
	Settle
	// Browse messages without getting them, and look at the queue and its consumers.
	Browse
	// Answer is to listen to the answers to one's own requests.
	Answer
	// Describe the protocol.
	Describe
)

// needs is the operation of which a client needs any, for each request.
var needs = map[Request]Operations{Publish: Put, Consume: Get, Settle: Get, Browse: Get, Answer: All, Describe: All}

// Allow reports whether a client with these operations may ask for something.
func (o Operations) Allow(r Request) bool { return o&needs[r] != 0 }

// Needed is the operation that a request needs, as the API names it.
func Needed(r Request) string { return needs[r].String() }

// Others in place of a client's name stands for those that are not named.
const Others = "*"

// Roles are the operations of clients by name. Nil: every client has all. Else a client that is neither named nor
// covered by Others has none.
type Roles map[string]Operations

// of returns the operations of a client by the first of its names, and all of them that have a role.
func (r Roles) of(names ...string) (matched string, o Operations) {
	if r == nil {
		return "", All
	}
	for _, name := range names {
		given, ok := r[name]
		if !ok || name == Others {
			continue
		}
		if o |= given; matched == "" {
			matched = name
		}
	}
	if matched == "" {
		o = r[Others]
	}
	return matched, o
}

// Token is that of a client. It prints without the secret.
type Token struct {
	// Name of the client, which is no secret.
	Name string
	Text string
}

// String is the name.
func (t Token) String() string { return t.Name }

// GoString is the name, too.
func (t Token) GoString() string { return t.Name }

// Digest of a token, by which it is looked up.
type Digest [sha256.Size]byte

// DigestOf returns that of a token's text.
func DigestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

// Client is who was authenticated.
type Client struct {
	// Name is token:NAME or what Names has of a certificate, cut to longestName bytes.
	Name       string
	Operations Operations
}

// Table says who may do what. It does not change.
type Table struct {
	tokens       map[Digest]Client
	certificates Roles
}

// NewTable returns that of tokens with roles, and of certificates with theirs. A token that several clients have gives
// all of their operations.
func NewTable(tokens []Token, ofTokens, ofCertificates Roles) *Table {
	t := &Table{tokens: make(map[Digest]Client, len(tokens)), certificates: maps.Clone(ofCertificates)}
	for _, token := range tokens {
		_, o := ofTokens.of(token.Name)
		if o == None || token.Text == "" {
			continue
		}
		digest := DigestOf(token.Text)
		c, ok := t.tokens[digest]
		if !ok {
			c.Name = "token:" + cut(token.Name)
		}
		c.Operations |= o
		t.tokens[digest] = c
	}
	return t
}

// Token returns the client of a token.
func (t *Table) Token(d Digest) Client { return t.tokens[d] }

// Certificate returns the client of a certificate that one of the clients' CAs vouches for.
func (t *Table) Certificate(c *x509.Certificate) Client {
	names := Names(c)
	name, o := t.certificates.of(names...)
	if name == "" {
		name = "certificate without a name"
		if len(names) > 0 {
			name = names[0]
		}
	}
	return Client{Name: cut(name), Operations: o}
}

// Same reports whether clients may do the same by another table.
func (t *Table) Same(other *Table) bool {
	return maps.Equal(t.tokens, other.tokens) && maps.Equal(t.certificates, other.certificates) &&
		(t.certificates == nil) == (other.certificates == nil)
}

// Names are those of a certificate that roles may name: CN:, DNS: and URI: before the subject's common name and each
// alternative name.
func Names(c *x509.Certificate) []string {
	var names []string
	if cn := c.Subject.CommonName; cn != "" {
		names = append(names, "CN:"+cn)
	}
	for _, name := range c.DNSNames {
		names = append(names, "DNS:"+name)
	}
	for _, uri := range c.URIs {
		names = append(names, "URI:"+uri.String())
	}
	return names
}

// longestName of a client in bytes, as it is logged.
const longestName = 256

func cut(name string) string {
	if len(name) <= longestName {
		return name
	}
	return strings.ToValidUTF8(name[:longestName], "")
}
