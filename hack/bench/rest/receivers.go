// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// receiveWork is that of an agent which has a claim of files that rest compressed beside another claim: it reads what
// rests and writes it. Nothing crosses a network, so that it does what a copy does.
const receiveWork = "receive"

// receiver is a way to write what rests into another claim.
type receiver struct {
	name string
	// from is the form of the files that are read.
	from cargo.Form
	// to is how they rest then.
	to wirev1.Form
	// bound of the CPU time by cp's; verified: what was written is read again and compared.
	bound    float64
	verified bool
	target   string
}

func receivers() (all []receiver) {
	for _, verified := range []bool{false, true} {
		ending, suffix, bound := "", "", 1.3
		if verified {
			ending, suffix, bound = ", checked", "-checked", 2
		}
		all = append(all,
			receiver{"form Gzip" + ending, cargo.Gzip, wirev1.Form_FORM_GZIP, bound, verified, "receive-gzip" + suffix},
			receiver{"form Zstd" + ending, cargo.Zstd, wirev1.Form_FORM_ZSTD, bound, verified, "receive-zstd" + suffix},
			receiver{
				"form Archive of files in form Gzip" + ending, cargo.Gzip, wirev1.Form_FORM_ARCHIVE, bound, verified,
				"receive-archive" + suffix,
			})
	}
	return all
}

func cpOf(f cargo.Form) string { return fmt.Sprintf("%s of files in form %v", cpName, f) }

// claims are directories with files that rest in a form, and an empty one.
type claims struct {
	dir    string
	stored map[cargo.Form]int64
}

func (c *claims) path(f cargo.Form) string { return filepath.Join(c.dir, f.String()) }

// makeClaims packs records that no application compressed, and those that run-length did, in blocks as Transfers cut
// them.
func (b *bench) makeClaims(ctx context.Context, dir string) (*claims, error) {
	c := &claims{dir: filepath.Join(dir, "claims"), stored: make(map[cargo.Form]int64)}
	if err := os.MkdirAll(filepath.Join(c.dir, "empty"), 0o755); err != nil {
		return nil, fmt.Errorf("make a claim: %w", err)
	}
	files := cargofile.Files{Engines: engines.Default(), Workers: 2}
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		if err := os.Mkdir(c.path(form), 0o755); err != nil {
			return nil, fmt.Errorf("make a claim: %w", err)
		}
		for _, s := range []store{{}, {application: "run-length"}} {
			plain := s.path(dir)
			in, err := os.Open(plain)
			if err != nil {
				return nil, fmt.Errorf("open records: %w", err)
			}
			to := filepath.Join(c.path(form), form.Name(filepath.Base(plain)))
			index, err := files.Pack(ctx, in, to, cargo.PackOptions{Form: form}, false)
			if err := errors.Join(err, in.Close()); err != nil {
				return nil, err
			}
			c.stored[form] += index.StoredSize()
		}
	}
	return c, nil
}

// nothings are receivers of an empty claim.
func nothings() []receiver {
	return []receiver{
		{name: "nothing, in a form", to: wirev1.Form_FORM_GZIP}, {name: "nothing, in archives", to: wirev1.Form_FORM_ARCHIVE},
	}
}

// receive has every receiver, and cp, write what rests. What an agent takes for an empty claim is taken off.
func (m *machine) receive(ctx context.Context, round int, c *claims) error {
	begins := make(map[bool]time.Duration)
	for _, r := range nothings() {
		t, err := m.local(ctx, r, c)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		begins[r.to == wirev1.Form_FORM_ARCHIVE] = t.cpu
		m.received = append(m.received, t)
	}
	all := receivers()
	for _, i := range harness.Order(round, len(all)) {
		t, err := m.local(ctx, all[i], c)
		if err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
		t.cpu = max(t.cpu-begins[all[i].to == wirev1.Form_FORM_ARCHIVE], 0)
		m.received = append(m.received, t)
	}
	for form := range c.stored {
		to := filepath.Join(c.dir, "copied")
		t, err := took(ctx, cpOf(form), receiveWork, "cp", "-r", "--reflink=never", c.path(form), to)
		if err := errors.Join(err, os.RemoveAll(to)); err != nil {
			return err
		}
		m.received = append(m.received, t)
		for _, work := range []string{checkedWork, summedWork} {
			if t, err = m.least(form, work, to); err != nil {
				return err
			}
			m.received = append(m.received, t)
		}
	}
	harness.Log("round %d of receivers is over", round+1)
	return nil
}

func leastOf(f cargo.Form, work string) string {
	also := ""
	if work == summedWork {
		also = " and CRC-32"
	}
	return fmt.Sprintf("a copy with XXH3%s of files in form %v", also, f)
}

// least has the worker copy what rests, with the checksums that every agent has to calculate.
func (m *machine) least(form cargo.Form, work, to string) (t turn, err error) {
	if err := os.Mkdir(to, 0o755); err != nil {
		return t, fmt.Errorf("make a claim: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	a, err := m.ask(order{Work: work, Path: m.claims.path(form), To: to})
	return turn{who: leastOf(form, work), what: receiveWork, wall: a.Wall, cpu: a.CPU}, err
}

// local runs an agent with both claims, which inflates nothing.
func (m *machine) local(ctx context.Context, r receiver, c *claims) (t turn, err error) {
	from, sourceForm := filepath.Join(c.dir, "empty"), wirev1.Form_FORM_GZIP
	if r.from != 0 {
		from = c.path(r.from)
	}
	switch {
	case r.from == cargo.Zstd:
		sourceForm = wirev1.Form_FORM_ZSTD
	case r.to == wirev1.Form_FORM_ARCHIVE:
		sourceForm = wirev1.Form_FORM_UNSPECIFIED // Files are packed as they rest.
	}
	turns := filepath.Join(c.dir, "turn")
	defer func() { err = errors.Join(err, os.RemoveAll(turns)) }()
	to, mounted := filepath.Join(turns, "destination"), filepath.Join(turns, "mounted")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return t, fmt.Errorf("make a claim: %w", err)
	}
	err = mount(mounted, &wirev1.LocalConfig{
		Send: &wirev1.SendConfig{
			RunId: "bench", Attempt: 1, Volume: from, Path: ".", Verify: r.verified, ControlAddress: "127.0.0.1:0",
			CheckpointInterval: 64 << 20, SourceForm: sourceForm, Form: r.to,
			Compression: &wirev1.CompressionSettings{
				Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
				Codecs: []string{map[bool]string{true: "zstd", false: "deflate"}[r.from == cargo.Zstd]},
			},
		},
		Receive: &wirev1.ReceiveConfig{
			RunId: "bench", Attempt: 1, SenderNamespace: "bench", SenderName: "records", Volume: to, Path: ".",
		},
		Transfer: "bench/records (1)",
	})
	if err != nil {
		return t, err
	}
	log := filepath.Join(turns, "report.json")
	t, err = took(ctx, r.name, receiveWork, m.agent, "local", "--config-dir", mounted, "--termination-log", log)
	if err != nil {
		return t, err
	}
	return t, m.arrived(r, log, to, c)
}

// mount writes what the agent has mounted.
func mount(dir string, c *wirev1.LocalConfig) error {
	text, err := protojson.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the configuration of the agent: %w", err)
	}
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	return agents.Files(dir, ca, ca, pki.Template{
		Identity: pki.TransferIdentity("bench", "bench", "records"), DNSNames: []string{"sender.send.lighterage.internal"},
	}, map[string][]byte{"config.json": text})
}

// arrived is an error unless what rests was written, and nothing of it inflated.
func (m *machine) arrived(r receiver, log, to string, c *claims) error {
	b, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("read the agent's report: %w", err)
	}
	var report wirev1.Report
	if err := protojson.Unmarshal(b, &report); err != nil {
		return fmt.Errorf("read the agent's report: %w", err)
	}
	d := report.GetDecompression()
	if n := d.GetHardware().GetOperations() + d.GetSoftware().GetOperations(); n > 0 {
		return fmt.Errorf("the agent inflated %d blocks", n)
	}
	var found int64
	err = filepath.WalkDir(to, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			found += info.Size()
		}
		return err
	})
	// Indexes and headers of a tar are hardly anything.
	if want := c.stored[r.from]; err == nil && (found < want || found > want+want/50+1<<20) {
		err = fmt.Errorf("the agent wrote %d bytes of %d", found, want)
	}
	return err
}

// receiverTable is empty where nothing was measured.
func (b *bench) receiverTable() string {
	if b.claims == nil {
		return ""
	}
	row := func(name string, stored int64) []string {
		found := of(b.received, name, receiveWork)
		spent := harness.MedianOf(found, cpu)
		perGiB := ""
		if stored > 0 {
			perGiB = fmt.Sprintf("%.3f", spent/(float64(stored)/(1<<30)))
		}
		return []string{
			name, harness.Grouped(stored), fmt.Sprintf("%.3f", harness.MedianOf(found, wall)), fmt.Sprintf("%.3f", spent),
			perGiB,
		}
	}
	var rows [][]string
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		rows = append(rows, row(cpOf(form), b.claims.stored[form]))
		for _, work := range []string{checkedWork, summedWork} {
			rows = append(rows, row(leastOf(form, work), b.claims.stored[form]))
		}
	}
	for _, r := range append(receivers(), nothings()...) {
		rows = append(rows, row(r.name, b.claims.stored[r.from]))
	}
	return harness.Table([]string{"written", "bytes that rest", "wall s", "CPU s", "CPU s per GiB"}, rows)
}
