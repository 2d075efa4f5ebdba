// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
)

// Where senders and relays meet. ID is a sender's.
const (
	root        = ".lighterage/handoff/"
	offers      = root + "offers/"      // ID: a sender is there; it puts the object again while it is
	relays      = root + "relays/"      // ID: the relay that has put it serves the sender, and no other does
	connections = root + "connections/" // ID/...: the directory of their Link
)

// idLength is that of rand.Text.
const idLength = 26

// Offer is the sender's side: a Link, and the object by which a relay finds it.
type Offer struct {
	*Link
	id       string
	stop     context.CancelFunc
	renewing sync.WaitGroup
}

// NewOffer makes a Link to the relay of the store, which may start at any time. Options.Directory is chosen.
func NewOffer(ctx context.Context, o Options) (*Offer, error) { //nolint:contextcheck // Close ends what goes on.
	id := strings.ToLower(rand.Text())
	o.Directory = connections + id
	offer := &Offer{Link: NewLink(o), id: id}
	if err := offer.put(ctx, 0); err != nil {
		return nil, fmt.Errorf("offer connections through the object store: %w", err)
	}
	renewing, stop := context.WithCancel(context.Background()) // It ends with Close.
	offer.stop = stop
	offer.renewing.Go(func() { offer.renew(renewing) })
	return offer, nil
}

// put writes another version of the object that says that the sender is there.
func (o *Offer) put(ctx context.Context, version uint64) error {
	content := strconv.FormatUint(version, 10)
	_, err := o.options.Store.Put(
		ctx, offers+o.id, strings.NewReader(content), int64(len(content)), objectstore.PutOptions{},
	)
	return err
}

func (o *Offer) renew(ctx context.Context) {
	tick := time.NewTicker(o.options.Renewal)
	defer tick.Stop()
	for version := uint64(1); ; version++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := o.put(ctx, version); err != nil && ctx.Err() == nil && !errors.Is(err, objectstore.ErrUnavailable) {
			o.note(err)
			return
		}
	}
}

// Close closes the Link and removes what is left of it in the store.
func (o *Offer) Close(ctx context.Context) error {
	o.stop()
	o.renewing.Wait()
	_ = o.Link.Close() // it returns nil
	return clean(ctx, o.options.Store, o.id)
}

// clean removes all about a sender, the offer first so that no relay takes it up again.
func clean(ctx context.Context, store *objectstore.Store, id string) error {
	if err := store.Delete(ctx, offers+id); err != nil {
		return err
	}
	if err := Sweep(ctx, store, connections+id); err != nil {
		return err
	}
	return store.Delete(ctx, relays+id)
}

// parseID returns the identifier of the sender that an object belongs to; ok is false if it belongs to none.
func parseID(name string) (id string, ok bool) {
	for _, directory := range []string{offers, relays, connections} {
		rest, below := strings.CutPrefix(name, directory)
		if !below {
			continue
		}
		id, _, _ = strings.Cut(rest, "/")
		other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }
		return id, len(id) == idLength && !strings.ContainsFunc(id, other)
	}
	return "", false
}
