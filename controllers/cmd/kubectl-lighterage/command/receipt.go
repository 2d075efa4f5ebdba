// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/receipt"
	"github.com/lighterage/lighterage/controllers/receiptkey"
)

var configMaps = kind{name: "ConfigMap", words: []string{"configmaps", "configmap", "cm"}, bare: true}

func newReceipt(p *plugin) *cobra.Command {
	return group(&cobra.Command{
		Use:   "receipt",
		Short: "Show and verify receipts of Transfers",
		Example: `  kubectl lighterage receipt show transfer/ledger -n bank -o envelope > ledger.json
  kubectl lighterage receipt verify ledger.json --sender-keys east.json --receiver-keys west.json`,
	}, newReceiptShow(p), newReceiptVerify(p), newReceiptKeys(p), newReceiptManifest(p))
}

func newReceiptShow(p *plugin) *cobra.Command {
	var name, file string
	output := choice{"text", "json", "yaml", "envelope"}
	named := transfers.argument(&name)
	cmd := output.addTo(&cobra.Command{
		Use:   "show [transfer/NAME]",
		Short: "Show what a receipt states, without any trust in it",
		Long: `Show what a receipt states: that of the last run of a Transfer, for which it takes the verb get on
transfers, or that of a file. The signatures are compared with the keys that the receipt names, which
proves nothing about whose keys they are: kubectl lighterage receipt verify does that. The output
"envelope" is the receipt itself, to be kept.`,
		Example: `  kubectl lighterage receipt show transfer/ledger -n bank
  kubectl lighterage receipt show --file ledger.json`,
		Args: func(cmd *cobra.Command, arguments []string) error {
			if file != "" && len(arguments) == 0 {
				return nil
			}
			if file != "" {
				return errors.New("name either a Transfer or --file")
			}
			return named(cmd, arguments)
		},
		ValidArgsFunction: p.complete(transfers),
		RunE: action(func(ctx context.Context) error {
			envelope, err := p.receiptOf(ctx, name, file)
			if err != nil {
				return err
			}
			statement, err := receipt.Read(envelope)
			if err != nil {
				return fmt.Errorf("reading the receipt: %w", err)
			}
			if output.String() == "envelope" {
				_, err := p.Out.Write(envelope)
				return err //nolint:wrapcheck // it names the stream
			}
			return output.write(p.Out, statement, func(to io.Writer) error { return writeReceipt(to, statement) })
		}),
	})
	cmd.Flags().StringVar(&file, "file", "", "file that has the receipt")
	return cmd
}

// receiptOf reads a receipt from a file, or that of the last run of a Transfer.
func (p *plugin) receiptOf(ctx context.Context, transfer, file string) ([]byte, error) {
	if file != "" {
		return readReceipt(file)
	}
	object := &v1alpha1.Transfer{}
	if err := p.get(ctx, transfers, transfer, object); err != nil {
		return nil, err
	}
	status := object.Status.Receipt
	switch {
	case status == nil && !object.Spec.Receipt:
		return nil, fmt.Errorf("the Transfer %q has no receipt; set spec.receipt to true for its next run", transfer)
	case status == nil:
		return nil, fmt.Errorf("the Transfer %q has no receipt yet; its run is not complete", transfer)
	case status.ConfigMapName == "":
		return nil, fmt.Errorf("the receipt of Transfer %q is not signed by both sides yet; the condition ReceiptSigned "+
			"says why", transfer)
	}
	return []byte(status.Envelope), nil
}

func newReceiptVerify(p *plugin) *cobra.Command {
	var file, senderKeys, receiverKeys, transfer, run, manifest, directory string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a receipt with keys that you trust, without any cluster",
		Long: `Verify a receipt: that both clusters have signed it, with keys that were valid by the signers' clocks.
The keys that you trust are in the files --sender-keys and --receiver-keys, as kubectl lighterage
receipt keys writes them; none is taken from the receipt. It needs no cluster. Whoever holds a key of a
cluster can sign anything, with any time.`,
		Example: `  kubectl lighterage receipt verify ledger.json --sender-keys east.json --receiver-keys west.json
  kubectl lighterage receipt verify ledger.json --sender-keys east.json --receiver-keys west.json --run 7f3c1`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) != 1 {
				return errors.New("name one file that has a receipt")
			}
			file = arguments[0]
			return nil
		},
		RunE: action(func(context.Context) error {
			statement, anchors, err := verifyFile(file, senderKeys, receiverKeys)
			if err != nil {
				return err
			}
			sender := &statement.Predicate.Sender
			if name := sender.Run.Namespace + "/" + sender.Run.Transfer; transfer != "" && name != transfer {
				return fmt.Errorf("the receipt is of Transfer %s and not of %s", name, transfer)
			}
			if run != "" && sender.Run.ID != run {
				return fmt.Errorf("the receipt is of run %s and not of %s", sender.Run.ID, run)
			}
			if err := verifyContents(sender.Contents.SHA256, manifest, directory); err != nil {
				return err
			}
			if err := writeReceipt(p.Out, statement); err != nil {
				return err
			}
			return writeVerified(p.Out, statement, anchors)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&senderKeys, "sender-keys", "", "file with the receipt keys of the sending cluster (required)")
	flags.StringVar(&receiverKeys, "receiver-keys", "", "file with the receipt keys of the receiving cluster (required)")
	flags.StringVar(&transfer, "transfer", "", "Transfer that the receipt must be of, as NAMESPACE/NAME")
	flags.StringVar(&run, "run", "", "identifier of the run that the receipt must be of")
	flags.StringVar(&manifest, "manifest", "", "file with a content manifest that the receipt must be of")
	flags.StringVar(&directory, "directory", "", "directory whose files the receipt must be of, all of them")
	for _, name := range []string{"sender-keys", "receiver-keys"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

// verifyFile verifies a receipt with the keys of two files, which it returns.
func verifyFile(file, senderKeys, receiverKeys string) (*receipt.Statement, receipt.Anchors, error) {
	var anchors receipt.Anchors
	envelope, err := readReceipt(file)
	if err != nil {
		return nil, anchors, err
	}
	if anchors.Sender, err = keysOf(senderKeys); err != nil {
		return nil, anchors, err
	}
	if anchors.Receiver, err = keysOf(receiverKeys); err != nil {
		return nil, anchors, err
	}
	statement, err := receipt.Verify(envelope, anchors)
	if err != nil {
		return nil, anchors, fmt.Errorf("the receipt is not valid: %w", err)
	}
	return statement, anchors, nil
}

// writeVerified says with which of the verifier's keys each side has signed. Whose a key is the verifier's file says;
// the name in the receipt is what that side calls itself.
func writeVerified(to io.Writer, statement *receipt.Statement, anchors receipt.Anchors) error {
	text := "\nVerified: both sides have signed this with keys that you trust.\n"
	for _, side := range []struct {
		role  string
		party *receipt.Party
		keys  *receipt.KeySet
	}{
		{"sender", &statement.Predicate.Sender.Party, anchors.Sender},
		{"receiver", &statement.Predicate.Receiver.Party, anchors.Receiver},
	} {
		key := side.keys.Find(side.party.KeyID)
		text += fmt.Sprintf("%s: key %s of cluster %q, valid from %s to %s\n", side.role, key.KeyID, key.Cluster,
			key.NotBefore.Format(time.RFC3339), key.NotAfter.Format(time.RFC3339))
		if key.Cluster != side.party.Cluster {
			text += fmt.Sprintf("WARNING: the receipt names the %s's cluster %q, and your file says that the key is of %q.\n",
				side.role, side.party.Cluster, key.Cluster)
		}
	}
	_, err := io.WriteString(to, text)
	return err //nolint:wrapcheck // it names the stream
}

func keysOf(file string) (*receipt.KeySet, error) {
	text, err := readBounded(file, receipt.MaxKeySet)
	if err != nil {
		return nil, fmt.Errorf("reading receipt keys: %w", err)
	}
	set, err := receipt.ParseKeySet(text)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", file, err)
	}
	return set, nil
}

func newReceiptKeys(p *plugin) *cobra.Command {
	var operator string
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Write the public receipt keys of this cluster, for verifiers to keep",
		Long: `Write the public keys with which this cluster signs or has signed receipts, those that have expired
included. Give the file to verifiers over a way that they trust. It takes the verb get on the ConfigMap
lighterage-receipt-keys of the operator's namespace.`,
		Example: "  kubectl lighterage receipt keys --context east > east.json",
		Args:    cobra.NoArgs,
		RunE: action(func(ctx context.Context) error {
			if err := p.open(); err != nil {
				return err
			}
			p.namespace = operator
			published := &corev1.ConfigMap{}
			if err := p.get(ctx, configMaps, receiptkey.Name, published); err != nil {
				return err
			}
			set, err := receipt.ParseKeySet([]byte(published.Data[receiptkey.PublicKey]))
			if err != nil {
				return err //nolint:wrapcheck // it says what was read
			}
			text, err := set.Encode()
			if err == nil {
				_, err = p.Out.Write(text)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&operator, "operator-namespace", "lighterage-system", "namespace of the operator")
	return cmd
}

// readReceipt reads the file of a receipt.
func readReceipt(file string) ([]byte, error) {
	b, err := readBounded(file, receipt.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the receipt: %w", err)
	}
	return b, nil
}

// writeReceipt writes what a receipt states for people. Its texts may command a terminal, so they are quoted.
func writeReceipt(to io.Writer, statement *receipt.Statement) error {
	p := &statement.Predicate
	s, r := &p.Sender, &p.Receiver
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	row := func(what string, sender, receiver any) { fmt.Fprintf(w, "%s\t%v\t%v\n", what, sender, receiver) }
	row("", "SENDER", "RECEIVER")
	row("cluster", quoted(s.Cluster), quoted(r.Cluster))
	row("transfer", quoted(s.Run.Namespace+"/"+s.Run.Transfer), "")
	row("run", quoted(s.Run.ID), "")
	row("attempts", s.Run.Attempt, "")
	row("held in", quoted(s.Place()), quoted(r.Place()))
	for _, t := range []struct {
		what             string
		sender, receiver receipt.Time
	}{
		{"start", s.StartTime, r.StartTime}, {"completion", s.CompletionTime, r.CompletionTime},
		{"signed", s.SignedTime, r.SignedTime},
	} {
		row(t.what, t.sender.Format(time.RFC3339), t.receiver.Format(time.RFC3339))
	}
	row("contents SHA-256", s.Contents.SHA256, "")
	row("entries", s.Contents.Entries, r.Contents.Entries)
	row("bytes", s.Contents.Bytes, r.Contents.Bytes)
	row("figures of", s.Scope, r.Scope)
	row("wire bytes", s.WireBytes, r.WireBytes)
	row("codec, engine", quoted(s.Codec)+", "+quoted(s.Engine), "")
	row("compressed bytes", s.CompressedBytes, "")
	row("CPU seconds", quoted(s.CPUSeconds), quoted(r.CPUSeconds))
	row("of them codec", quoted(s.CodecSeconds), quoted(r.CodecSeconds))
	row("of them SHA-256", quoted(s.DigestSeconds), quoted(r.DigestSeconds))
	row("key", s.KeyID, r.KeyID)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the receipt: %w", err)
	}
	return nil
}
