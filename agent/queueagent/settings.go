// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// payloadMargin is what a message may have beside its payload: headers of the client's
	// and those of the form.
	payloadMargin = 128 << 10
	// leastPayload is what the server is prepared for at least, so that a longer message can
	// be allowed later.
	leastPayload = 8<<20 - payloadMargin
)

// member returns the one of the configuration with a name.
func member(c *wirev1.QueueConfig, name string) (*wirev1.QueueMember, error) {
	if len(c.GetMembers()) == 0 {
		return nil, errors.New("the configuration lacks members")
	}
	i := slices.IndexFunc(c.GetMembers(), func(m *wirev1.QueueMember) bool { return m.GetName() == name })
	if i < 0 {
		return nil, fmt.Errorf("the configuration has no member with the name of this host, %q", name)
	}
	return c.GetMembers()[i], nil
}

// storeOptions says how the store runs, which counts at the start only.
func (a *Agent) storeOptions(c *wirev1.QueueConfig) (store.Options, error) {
	own, err := member(c, a.options.Member)
	if err != nil {
		return store.Options{}, err
	}
	o := store.Options{
		Queue: c.GetQueue(), Member: own.GetName(), Directory: c.GetStorage().GetDirectory(),
		Memory:   c.GetStorage().GetMemory(),
		Capacity: size(c.GetStorage().GetCapacity()), MaxPayload: int32(max(maxMessage(c), leastPayload) + payloadMargin),
		Log:  a.options.Log,
		Sync: store.Sync{Always: c.GetStorage().GetSyncAlways(), Interval: c.GetStorage().GetSyncInterval().AsDuration()},
	}
	if spill := c.GetStorage().GetSpill(); spill != nil {
		o.Memory, o.Sync.Interval = false, store.SpillSyncInterval
		o.Spill = &store.Spill{Memory: size(spill.GetMemoryBytes()), Volume: size(spill.GetVolumeBytes())}
	}
	if c.GetExternal() != nil {
		o.Directory = "" // Nothing is mounted there.
	}
	if len(c.GetMembers()) > 1 {
		o.Cluster = &store.Cluster{ListenAddress: c.GetRouteAddress(), TLS: a.options.MembersTLS}
		for _, m := range c.GetMembers() {
			o.Cluster.Members = append(o.Cluster.Members, m.GetRouteAddress())
		}
	}
	return o, nil
}

func maxMessage(c *wirev1.QueueConfig) int {
	return int(min(c.GetLimits().GetMaxMessageSize(), message.MaxLength))
}

func size(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// streamSettings are the limits of the stream. What the volume holds is one of them, so that
// a full one drops messages or refuses them as the limits say.
func streamSettings(c *wirev1.QueueConfig) store.Settings {
	l := c.GetLimits()
	s := store.Settings{
		Replicas: len(c.GetMembers()), MaxMessages: size(l.GetMaxMessages()), MaxBytes: size(l.GetMaxBytes()),
		MaxAge:          l.GetMaxAge().AsDuration(),
		DropOldest:      l.GetOverflow() == wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST,
		DuplicateWindow: c.GetDuplicateWindow().AsDuration(),
	}
	if capacity := size(c.GetStorage().GetCapacity()); capacity > 0 && (s.MaxBytes == 0 || s.MaxBytes > capacity) {
		s.MaxBytes = capacity
	}
	return s
}

// encoding says how messages are put.
func (a *Agent) encoding(
	ctx context.Context, c *wirev1.QueueConfig, dictionaries *dictionary.Keeper,
) (*message.Encoding, error) {
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return nil, err
	}
	registry, accelerator := a.options.Engines(ctx, resolved)
	o := message.EncodingOptions{
		Policy: resolved.Policy, Codecs: resolved.Codecs, MinSize: size(c.GetCompressionMinSize()), Engines: registry,
		Accelerator: accelerator,
	}
	if dictionaries != nil {
		o.Dictionaries = dictionaries
	}
	return message.NewEncoding(o)
}

// validate finds what cannot be used whatever the store and the engines are.
func validate(c *wirev1.QueueConfig) error {
	switch {
	case c.GetLimits().GetMaxMessageSize() == 0:
		return errors.New("the configuration lacks limits.max_message_size")
	case c.GetLimits().GetMaxMessageSize() > message.MaxLength:
		return fmt.Errorf("limits.max_message_size is %d: use up to %d", c.GetLimits().GetMaxMessageSize(), message.MaxLength)
	case c.GetExternal() == nil && c.GetStorage().GetDirectory() == "":
		return errors.New("the configuration lacks storage.directory")
	case c.GetStorage().GetSyncInterval().AsDuration() < 0:
		return fmt.Errorf(
			"storage.sync_interval is %v: use a positive one, or sync_always", c.GetStorage().GetSyncInterval().AsDuration(),
		)
	case c.GetStorage().GetSpill() != nil && (!c.GetStorage().GetMemory() || c.GetExternal() != nil ||
		c.GetStorage().GetSpill().GetVolumeBytes() < c.GetStorage().GetCapacity() || c.GetStorage().GetCapacity() == 0):
		return errors.New("storage.spill is for messages in memory: use storage.memory without external, a capacity, and " +
			"volume_bytes of at least that")
	case c.GetExternal() == nil && len(c.GetMembers()) > 1 && c.GetRouteAddress() == "":
		return errors.New("the configuration has several members and lacks route_address")
	}
	var dialled error
	if dials(c) {
		_, dialled = egress.Parse(c.GetDialPolicy())
	}
	return errors.Join(validateChannels(c), validateArchive(c), dialled)
}

// fixed returns what counts at the start only.
func fixed(c *wirev1.QueueConfig) *wirev1.QueueConfig {
	return &wirev1.QueueConfig{
		Queue: c.GetQueue(), ListenAddress: c.GetListenAddress(), ServiceAddress: c.GetServiceAddress(),
		RouteAddress: c.GetRouteAddress(), ControlAddress: c.GetControlAddress(),
		HealthAddress: c.GetHealthAddress(), Members: c.GetMembers(), Storage: c.GetStorage(),
		ServingDirectory: c.GetServingDirectory(),
		Acceptance: &wirev1.ChannelAcceptance{
			Address: c.GetAcceptance().GetAddress(), DataPath: c.GetAcceptance().GetDataPath(),
		}, External: c.GetExternal(),
		Archive: &wirev1.QueueArchiveConfig{Directory: c.GetArchive().GetDirectory(), Store: c.GetArchive().GetStore()},
		Restore: c.GetRestore(),
	}
}

// changeable returns an error when a configuration differs from the one at the start in what
// cannot change.
func changeable(first, c *wirev1.QueueConfig) error {
	if !proto.Equal(fixed(first), fixed(c)) {
		return errors.New(
			"addresses, acceptance.data_path, members, storage, external servers, serving_directory, archive.directory, " +
				"archive.store and restore cannot be changed while the agent runs: start it again",
		)
	}
	if maxMessage(c) > max(maxMessage(first), leastPayload) {
		return fmt.Errorf(
			"limits.max_message_size is %d, and the agent was started for up to %d: start it again", maxMessage(c),
			max(maxMessage(first), leastPayload),
		)
	}
	return nil
}

// maxToken is the longest file of a token in bytes.
const maxToken = 4 << 10

// who says who may come in. Problem is why some or all may not, and unsure says that they might if
// something could be read.
func who(a *wirev1.QueueAuthentication) (tokens []roles.Token, cas *x509.CertPool, problem string, unsure bool) {
	var problems []string
	if pem := a.GetClientCaBundle(); len(pem) > 0 {
		cas = x509.NewCertPool()
		if !cas.AppendCertsFromPEM(pem) {
			cas, unsure = nil, true
			problems = append(problems, "client_ca_bundle holds no certificate in PEM")
		}
	}
	if directory := a.GetTokensDirectory(); directory != "" {
		entries, err := os.ReadDir(directory)
		if err != nil {
			unsure = true
			problems = append(problems, fmt.Sprintf("tokens cannot be read: %v", err))
		}
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), ".") {
				continue // how Kubernetes replaces files
			}
			token, err := readToken(filepath.Join(directory, entry.Name()))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				unsure = true
				problems = append(problems, fmt.Sprintf("token %s cannot be read: %v", entry.Name(), err))
			case token == "":
				problems = append(problems, fmt.Sprintf("token %s is empty", entry.Name()))
			default:
				tokens = append(tokens, roles.Token{Name: entry.Name(), Text: token})
			}
		}
		if len(entries) == 0 && err == nil {
			problems = append(problems, "the Secret with tokens is empty: put a token into it for each client")
		}
	}
	if len(tokens) == 0 && cas == nil && len(problems) == 0 {
		problems = append(problems, "neither tokens nor CAs of clients are given, so no client can authenticate")
	}
	return tokens, cas, strings.Join(problems, "; "), unsure
}

// rolesOf are those of a configuration; nil when it has none.
func rolesOf(list []*wirev1.QueueRole) roles.Roles {
	if len(list) == 0 {
		return nil
	}
	all := make(roles.Roles, len(list))
	for _, r := range list {
		o := roles.None
		if r.GetPut() {
			o |= roles.Put
		}
		if r.GetGet() {
			o |= roles.Get
		}
		all[r.GetClient()] |= o
	}
	return all
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() || info.Size() > maxToken {
		return "", fmt.Errorf("it has to be a file of at most %d bytes", maxToken)
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}
