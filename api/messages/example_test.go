// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lighterage/lighterage/api/messages"
)

// A program puts an order under its own number, so that a put whose answer is lost is stored once, and processes
// orders until it is told to end.
func Example() {
	queue, err := startFake() // stands for the Queue
	if err != nil {
		log.Fatal(err)
	}
	defer queue.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	client, err := messages.New(
		queue.address, // orders.bank.svc:8443
		messages.WithTLS(&tls.Config{RootCAs: queue.roots, MinVersion: tls.VersionTLS12}),
		messages.WithToken(token),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if _, err := client.Put(ctx, messages.Message{ID: "4711", Key: "account-7", Payload: []byte("<order/>")}); err != nil {
		log.Fatal(err)
	}
	err = client.Consume(ctx, messages.ConsumeOptions{}, func(_ context.Context, m *messages.Received) error {
		fmt.Printf("%s: %s\n", m.ID, m.Payload)
		cancel() // one is enough here
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// 4711: <order/>
	// true
}

// A put of several messages says which one is not stored.
func ExampleClient_Put() {
	queue, err := startFake()
	if err != nil {
		log.Fatal(err)
	}
	defer queue.stop()
	client, err := messages.New(
		queue.address, messages.WithTLS(&tls.Config{RootCAs: queue.roots, MinVersion: tls.VersionTLS12}),
		messages.WithToken(token),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	stored, err := client.Put(
		context.Background(),
		messages.Message{ID: "1", Payload: []byte("a")},
		messages.Message{ID: "2", Payload: []byte("b")},
		messages.Message{ID: "1", Payload: []byte("a")},
	)
	var failed *messages.PutError
	switch {
	case errors.As(err, &failed) && errors.Is(err, messages.ErrFull):
		fmt.Println("no space for message", failed.Index)
	case err != nil:
		log.Fatal(err)
	}
	for _, s := range stored {
		fmt.Println(s.Sequence, s.Duplicate)
	}
	// Output:
	// 1 false
	// 2 false
	// 1 true
}

// Messages that were got are acknowledged when they have been processed, and released when they have not.
func ExampleClient_Get() {
	queue, err := startFake()
	if err != nil {
		log.Fatal(err)
	}
	defer queue.stop()
	ctx := context.Background()
	client, err := messages.New(
		queue.address, messages.WithTLS(&tls.Config{RootCAs: queue.roots, MinVersion: tls.VersionTLS12}),
		messages.WithToken(token),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, messages.Message{ID: messages.NewID(), Payload: []byte("hello")}); err != nil {
		log.Fatal(err)
	}

	got, err := client.Get(ctx, messages.GetOptions{Max: 10, Wait: 20 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range got {
		fmt.Printf("%s, delivery %d\n", m.Payload, m.Deliveries)
	}
	if err := client.Acknowledge(ctx, got...); err != nil {
		log.Fatal(err) // errors.Is(err, messages.ErrExpired): another client has the message now
	}
	// Output: hello, delivery 1
}
