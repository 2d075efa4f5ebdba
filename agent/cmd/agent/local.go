// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// local is sender and receiver at once, for two volumes of one pod, or object stores in place of them.
func (a *agent) local(ctx context.Context) error {
	var c wirev1.LocalConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	if c.GetScrub() != nil {
		return a.scrub(ctx, &c)
	}
	from, to := c.GetSend(), c.GetReceive()
	err := required("send.run_id", from.GetRunId(), "send.control_address", from.GetControlAddress(),
		"receive.sender_namespace", to.GetSenderNamespace(), "receive.sender_name", to.GetSenderName())
	if err == nil && c.GetSourceStore() == nil {
		err = required("send.volume", from.GetVolume(), "send.path", from.GetPath())
	}
	if err == nil && c.GetDestinationStore() == nil {
		err = required("receive.volume", to.GetVolume(), "receive.path", to.GetPath())
	}
	if err == nil && (c.GetDestinationStore() != nil || from.GetForm() == wirev1.Form_FORM_ARCHIVE) {
		err = required("transfer", c.GetTransfer())
	}
	if err != nil {
		return err
	}
	if err := checkImage(&c); err != nil {
		return err
	}
	err = cmp.Or(ofClaim(from.GetVolume()), ofClaim(to.GetVolume()))
	if err != nil {
		return err
	}
	if from.GetRunId() != to.GetRunId() || from.GetAttempt() != to.GetAttempt() {
		return badConfig(
			"the configuration sends run %q attempt %d and receives run %q attempt %d", from.GetRunId(), from.GetAttempt(),
			to.GetRunId(), to.GetAttempt(),
		)
	}
	resolved, err := localSettings(&c)
	if err == nil {
		err = identitiesFit(from)
	}
	if err != nil {
		return err
	}
	a.known = knownOn(node.ReadHost(), from.GetFigures())
	report := send.NewReport()
	report.SetDetail("The agent is opening both volumes")
	pace, err := paceOf(from)
	if err != nil {
		return err
	}
	stop, err := a.serveControl(transport.NewFiles(a.configDir), from.GetControlAddress(), report, pace)
	if err != nil {
		return err
	}
	defer stop()
	return a.end(report, func() error {
		ends, err := a.openEnds(ctx, &c, report, pace)
		if err != nil {
			return err
		}
		defer ends.close()
		if ends.destination != nil {
			return a.toStore(ctx, &c, ends, resolved, report)
		}
		return a.moveLocally(ctx, &c, ends, resolved, report)
	}())
}

// checkImage is an error unless a block volume is at one end and a store at the other where there is an image, and only
// there.
func checkImage(c *wirev1.LocalConfig) error {
	from, to := c.GetSend(), c.GetReceive()
	image := from.GetBlock() && c.GetSourceStore() == nil && c.GetDestinationStore() != nil ||
		to.GetBlock() && c.GetSourceStore() != nil && c.GetDestinationStore() == nil
	switch {
	case image != (c.GetImage() != nil):
		return badConfig("a block volume and a store are the ends of an image, and of nothing else")
	case image && (from.GetForm() == wirev1.Form_FORM_ARCHIVE || from.GetMirror() || len(from.GetInclude()) > 0 ||
		len(from.GetExclude()) > 0 || to.GetBlock() && from.GetForm() != wirev1.Form_FORM_UNSPECIFIED):
		return badConfig("a block volume has no files to choose, to remove or to archive, and no form")
	}
	return nil
}

// localSettings is settingsOf with archives, from claims.
func localSettings(c *wirev1.LocalConfig) (compression.Settings, error) {
	from := c.GetSend()
	archive := from.GetForm() == wirev1.Form_FORM_ARCHIVE
	switch {
	case archive && (c.GetSourceStore() != nil || from.GetSourceForm() == wirev1.Form_FORM_ARCHIVE):
		return compression.Settings{}, badConfig("files are archived from claims with plain files only")
	case archive && from.GetRecords() != nil:
		return compression.Settings{}, badConfig("files in archives have no record numbers")
	case c.GetEncryption() != nil && (!archive || from.GetReceipt()):
		return compression.Settings{}, badConfig("archives alone are encrypted, without a receipt")
	case archive && c.GetDestinationStore() == nil && from.GetReceipt():
		return compression.Settings{}, badConfig("archives in claims have no receipt")
	case archive:
		resolved, err := compression.Read(from.GetCompression())
		if err != nil {
			return resolved, badConfig("%w", err)
		}
		return resolved, nil
	}
	return settingsOf(from)
}

// ofClaim is an error unless a volume can be that of a claim: credentials of stores and identities, which are nobody's
// data, are mounted in /etc, and what the kernel shows leads there. Links count as what they lead to, those of /dev/fd
// among them. Without a volume there is no error.
func ofClaim(volume string) error {
	if volume == "" {
		return nil
	}
	found := []string{volume}
	if resolved, err := filepath.EvalSymlinks(volume); err == nil { // Else it cannot be opened, which says why.
		found = append(found, resolved)
	}
	for _, name := range found {
		clean := path.Clean("/" + name)
		first, _, _ := strings.Cut(clean[1:], "/")
		if clean == "/" || slices.Contains([]string{"etc", "proc", "sys"}, first) {
			return badConfig("the volume %q is not that of a claim", volume)
		}
	}
	return nil
}

// moveLocally joins a receiver and a sender.
func (a *agent) moveLocally(
	ctx context.Context, c *wirev1.LocalConfig, e *ends, resolved compression.Settings, report *send.Report,
) error {
	from, to := c.GetSend(), c.GetReceive()
	destination, err := openDestination(to)
	if err != nil {
		return err
	}
	defer destination.Close()
	compress, inflate := encoders{registry: engines.Default()}, decoders{registry: engines.Default()}
	if resolved.Policy.Mode == policy.Always || from.GetForm() != wirev1.Form_FORM_UNSPECIFIED {
		// In mode Auto nothing is compressed that neither leaves the process nor rests compressed, so nobody need know
		// what would do it best.
		compress = a.encoders(ctx, resolved)
		inflate = a.decoders(ctx)
	}
	receiving := receive.NewReport()
	receiving.SoftwareReason = inflate.software
	e.inflated = &receiving.Blocks
	if c.GetInflateInSoftware() {
		receiving.SoftwareReason = policy.SoftwareUsed
	}
	receiver := receive.New(receive.Options{
		RunID:       to.GetRunId(),
		Attempt:     to.GetAttempt(),
		Sender:      to.GetSenderNamespace() + "/" + to.GetSenderName(),
		Destination: destination,
		Block:       to.GetBlock(),
		AllowDelete: to.GetAllowDelete(),
		Engines:     inflate.registry,
		Report:      receiving,
		OneProcess:  true,
	})
	pipe := transport.NewPipe(receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(pipe, receiver)
	defer a.serve(pipe, pipe.Listener())()

	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	received := make(chan error, 1)
	go func() { received <- receiver.Wait(waiting) }()
	options := sendOptions(from, e.source, compress, resolved, report)
	if c.GetSourceStore() != nil {
		options.SourceForm = options.Form // Walk finds what rests there in this form, and that travels as it rests.
		options.Block = to.GetBlock()
	}
	options.Streams = localStreams(c)
	options.Dial = func() (send.Conn, error) { return pipe.Dial() }
	options.DialBlocks = func(ctx context.Context) (net.Conn, error) { return pipe.DialBlocks(ctx) }
	options.OneProcess = true
	err = send.Run(ctx, options)
	if err != nil {
		giveUp(err)
	}
	if ended := <-received; err == nil {
		err = ended
	}
	report.SetContents(digestOfBoth(report.Snapshot().GetContents(), receiving.Snapshot().GetContents()))
	return err
}

// digestOfBoth is the digest for the one report of both ends, which have each read everything; nil if there is none.
func digestOfBoth(sent, received *wirev1.ContentDigest) *wirev1.ContentDigest {
	if sent != nil {
		sent.CpuNanos += received.GetCpuNanos()
	}
	return sent
}
