// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// archiveSizes of messages in bytes are those of row 7.
var archiveSizes = []int{4_000, 32_000, 1_000_000, 4_000_000}

// archiveWay is how an archive is made.
type archiveWay struct {
	name string
	mode policy.Mode
	id   codec.ID
	// atPut says that messages were compressed when they were put, and are archived as they are.
	atPut bool
}

var archiveWays = []archiveWay{
	{name: "none", mode: policy.Never, id: codec.Zstd},
	{name: "deflate", mode: policy.Auto, id: codec.Deflate},
	{name: "zstd", mode: policy.Auto, id: codec.Zstd},
	{name: "zstd when put", mode: policy.Auto, id: codec.Zstd, atPut: true},
}

// archived is what one turn took: rates in millions of bytes a second, as the messages were put, and CPU milliseconds
// for each million.
type archived struct {
	Way                     string
	Size                    int
	Rate, CPU               float64 // to write the archive
	RestoreRate, RestoreCPU float64
	// Share of the messages' bytes that the files of the archive have.
	Share float64
}

// archiveLongest is the longest message of a queue with an archive in bytes.
const archiveLongest = 8 << 20

// inArchives measures how a queue is archived and restored, with files in memory.
func (b *bench) inArchives(ctx context.Context) error {
	return b.Rounds(b.archiveRounds, func(round int) error {
		for _, size := range archiveSizes {
			for _, i := range harness.Order(round, len(archiveWays)) {
				what := fmt.Sprintf("archive messages of %d bytes by %s", size, archiveWays[i].name)
				a, err := harness.Undisturbed(what, func() (archived, error) {
					return archiveTurn(ctx, archiveWays[i].name, size, b.archiveBytes, b.directory)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				b.archives = append(b.archives, a)
			}
			harness.Log("archive, round %d: messages of %d bytes", round+1, size)
		}
		return nil
	})
}

// archiveTurn is a turn in a process of its own.
func archiveTurn(ctx context.Context, way string, size, total int, parent string) (a archived, err error) {
	directory, err := os.MkdirTemp(parent, "archive-")
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	// For the queue, its archive, and the one that is made of it.
	if err := findPages(directory, 3*total); err != nil {
		return a, err
	}
	w, err := startRole(ctx, archiveRole, &a, way, directory, fmt.Sprintf("%dx%d", size, max(total/size, 8)))
	if err != nil {
		return a, err
	}
	return a, w.Close()
}

// serveArchive is that process. messages is their size and number.
func serveArchive(ctx context.Context, name, directory, messages string) error {
	i := slices.IndexFunc(archiveWays, func(w archiveWay) bool { return w.name == name })
	if i < 0 {
		return fmt.Errorf("unknown way to archive %q", name)
	}
	var size, n int
	if _, err := fmt.Sscanf(messages, "%dx%d", &size, &n); err != nil {
		return fmt.Errorf("read the messages %q: %w", messages, err)
	}
	a, err := archiveAndRestore(ctx, archiveWays[i], directory, size, n)
	if err == nil {
		harness.Answer(a)
	}
	return err
}

func archiveAndRestore(ctx context.Context, way archiveWay, directory string, size, n int) (a archived, err error) {
	a = archived{Way: way.name, Size: size}
	from, err := openStore(ctx, filepath.Join(directory, "from"), queue)
	if err != nil {
		return a, err
	}
	defer from.close()
	if err := from.fill(ctx, way, size, n); err != nil {
		return a, fmt.Errorf("put: %w", err)
	}
	claim := filepath.Join(directory, "claim")
	if err := os.Mkdir(claim, 0o700); err != nil {
		return a, err
	}
	log := slog.New(slog.DiscardHandler)
	writer := archive.NewArchiver(archive.Options{
		Conn: from.conn, Stream: queue, Leads: from.store.Leader, Member: "orders-0",
		Place:    archive.Place{Directory: claim},
		Decoders: engines.Default(), Log: log,
	}, archive.Settings{Interval: time.Hour, Compression: archive.Compression{
		Policy: policy.Settings{Mode: way.mode, Level: codec.Fast}, Codecs: []codec.ID{way.id}, Engines: engines.Default(),
	}})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	begin, cpu := time.Now(), harness.OwnCPU()
	go func() { defer close(ended); writer.Run(running) }()
	defer func() { stop(); <-ended }()
	s := writer.Status()
	for ; s.LastTime.IsZero(); s = writer.Status() {
		if s.LastError != nil {
			return a, s.LastError
		}
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	if s.Index.Messages != uint64(n) || s.Index.PlainBytes != uint64(n*size) {
		return a, fmt.Errorf("%d messages of %d are archived", s.Index.Messages, n)
	}
	mb := float64(n*size) / 1e6
	a.Rate, a.CPU = mb/time.Since(begin).Seconds(), (harness.OwnCPU()-cpu).Seconds()*1000/mb
	a.Share = float64(s.Index.WrittenBytes) / float64(s.Index.PlainBytes)

	to, err := openStore(ctx, filepath.Join(directory, "to"), "restored")
	if err != nil {
		return a, err
	}
	defer to.close()
	begin, cpu = time.Now(), harness.OwnCPU()
	reader := archive.NewRestorer(archive.RestoreOptions{
		Conn: to.conn, Stream: "restored", Leads: to.store.Leader, Queue: queue, MaxMessage: archiveLongest,
		Place:    archive.Place{Directory: claim},
		Decoders: engines.Default(), Log: log,
	})
	restoring, end := context.WithTimeout(ctx, endPatience)
	defer end()
	if err := reader.Run(restoring); err != nil {
		return a, errors.Join(err, reader.Status().LastError)
	}
	if r := reader.Status(); r.Messages != uint64(n) {
		return a, fmt.Errorf("%d messages of %d are restored", r.Messages, n)
	}
	a.RestoreRate, a.RestoreCPU = mb/time.Since(begin).Seconds(), (harness.OwnCPU()-cpu).Seconds()*1000/mb
	return a, nil
}

// kept is a queue without a way in for clients.
type kept struct {
	store *store.Store
	conn  *nats.Conn
}

func openStore(ctx context.Context, directory, name string) (*kept, error) {
	if err := os.Mkdir(directory, 0o700); err != nil {
		return nil, err
	}
	s, err := store.Start(ctx, store.Options{Queue: name, Directory: directory, MaxPayload: archiveLongest})
	if err != nil {
		return nil, err
	}
	conn, err := s.Connect("bench")
	if err == nil {
		err = s.Ensure(ctx, conn, store.Settings{})
	}
	k := &kept{store: s, conn: conn}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kept) close() {
	if k.conn != nil {
		k.conn.Close()
	}
	k.store.Shutdown()
}

// fill puts messages as the front does.
func (k *kept) fill(ctx context.Context, way archiveWay, size, n int) error {
	data, err := payloads(size)
	if err != nil {
		return err
	}
	js, err := jetstream.New(k.conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		return err
	}
	encoding, err := message.NewEncoding(encodingOptions(way.id))
	if err != nil {
		return err
	}
	defer encoding.Close()
	encoder, err := encoding.Encoder()
	if err != nil {
		return err
	}
	defer encoder.Release()
	for i := range n {
		m := nats.NewMsg(queue)
		m.Data = data[i%len(data)]
		if way.atPut {
			payload, form, _, err := encoder.Encode(nil, m.Data)
			if err != nil {
				return err
			}
			m.Data = payload
			envelope.SetForm(m, form)
		}
		if _, err := js.PublishMsgAsync(m); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-js.PublishAsyncComplete():
	}
	stream, err := js.Stream(ctx, queue)
	if err != nil {
		return err
	}
	if got := stream.CachedInfo().State.Msgs; got != uint64(n) {
		return fmt.Errorf("the queue has %d messages of %d", got, n)
	}
	return nil
}

// archiveTable writes medians in the shape of row 7: what it takes to write archives, and to recover from them, by the
// size of messages; with the difference that compression makes.
func archiveTable(all []archived) string {
	if len(all) == 0 {
		return ""
	}
	head := []string{"message bytes"}
	for _, size := range archiveSizes {
		head = append(head, harness.Grouped(size))
	}
	var lines [][]string
	for _, what := range []struct {
		name   string
		format string
		of     func(archived) float64
		beside bool
	}{
		{"archive, MB/s", "%.0f", func(a archived) float64 { return a.Rate }, true},
		{"archive, CPU ms per MB", "%.2f", func(a archived) float64 { return a.CPU }, true},
		{"archive, bytes by those put", "%.2f", func(a archived) float64 { return a.Share }, false},
		{"recovery, MB/s", "%.0f", func(a archived) float64 { return a.RestoreRate }, true},
		{"recovery, CPU ms per MB", "%.2f", func(a archived) float64 { return a.RestoreCPU }, true},
	} {
		var first []float64
		for i, way := range archiveWays {
			line := []string{what.name + ", " + way.name}
			for j, size := range archiveSizes {
				turns := slices.DeleteFunc(slices.Clone(all), func(a archived) bool { return a.Way != way.name || a.Size != size })
				middle := harness.MedianOf(turns, what.of)
				cell := figure(what.format, middle)
				if i == 0 {
					first = append(first, middle)
				} else if what.beside {
					cell += " (" + change(middle, first[j]) + ")"
				}
				line = append(line, cell)
			}
			lines = append(lines, line)
		}
	}
	return harness.Table(head, lines)
}
