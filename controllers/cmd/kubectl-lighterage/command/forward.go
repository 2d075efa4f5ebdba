// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxForwardError bounds what a node says about a port that it cannot forward.
	maxForwardError = 4 << 10
	// forwardErrorWait is how long that is waited for when the connection has ended.
	forwardErrorWait = time.Second
)

// forward connects to a port of a pod through the API server, without a port on this machine that others could use. A
// connection that the node cannot make is told of by Read and Write.
func forward(ctx context.Context, config *rest.Config, pod client.ObjectKey, port int32) (net.Conn, error) {
	streams, err := openForwarding(ctx, config, pod)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	failures, err := streams.CreateStream(headers)
	if err != nil {
		streams.Close()
		return nil, fmt.Errorf("forwarding port %d of pod %s: %w", port, pod, err)
	}
	failures.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := streams.CreateStream(headers)
	if err != nil {
		streams.Close()
		return nil, fmt.Errorf("forwarding port %d of pod %s: %w", port, pod, err)
	}
	f := &forwarded{Stream: data, streams: streams, pod: pod, port: port, told: make(chan struct{})}
	go f.listen(failures)
	return f, nil
}

// openForwarding asks the API server, by WebSocket or, where it or what stands before it does not know that, by SPDY.
func openForwarding(ctx context.Context, config *rest.Config, pod client.ObjectKey) (httpstream.Connection, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &corev1.SchemeGroupVersion, "/api",
		scheme.Codecs.WithoutConversion()
	config.Timeout = 0 // the connection lasts
	answer := &answerStatus{}
	config.Wrap(answer.watch)
	core, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	url := core.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(socket,
		spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	type result struct {
		streams httpstream.Connection
		err     error
	}
	done := make(chan result, 1)
	go func() {
		streams, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err == nil && protocol != portforward.PortForwardProtocolV1Name {
			streams.Close()
			err = fmt.Errorf("the API server forwards by %q, not by %q", protocol, portforward.PortForwardProtocolV1Name)
		}
		done <- result{streams, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, refusedForwarding(r.err, int(answer.code.Load()), pod)
		}
		return r.streams, nil
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.streams.Close()
			}
		}()
		return nil, fmt.Errorf("the API server did not forward a port of pod %s in time: %w", pod, ctx.Err())
	}
}

// refusedForwarding says why the API server forwards no port, and what to do.
func refusedForwarding(err error, code int, pod client.ObjectKey) error {
	switch code {
	case http.StatusForbidden:
		return fmt.Errorf("you may not forward ports of pods in namespace %q; ask for a Role there with the verbs get and "+
			"create on pods/portforward, or give the address of the service with --server: %w",
			pod.Namespace, err)
	case http.StatusUnauthorized:
		return fmt.Errorf("the cluster rejects the credentials of the kubeconfig; log in again: %w", err)
	case http.StatusNotFound:
		return fmt.Errorf("pod %s is gone; try again: %w", pod, err)
	}
	return fmt.Errorf("forwarding a port of pod %s: %w", pod, err)
}

// answerStatus remembers the status of the last answer: the dialers pass on the text alone.
type answerStatus struct{ code atomic.Int64 }

func (a *answerStatus) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if response != nil {
			a.code.Store(int64(response.StatusCode))
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// forwarded is a connection to a port of a pod.
type forwarded struct {
	httpstream.Stream
	streams httpstream.Connection
	pod     client.ObjectKey
	port    int32
	closing sync.Once
	told    chan struct{} // closed when failure is there, or will not be
	failure error
}

// listen waits for the node to say that it cannot forward, which ends the connection.
func (f *forwarded) listen(failures io.Reader) {
	said, _ := io.ReadAll(io.LimitReader(failures, maxForwardError)) // how it ended does not matter
	if said = bytes.TrimSpace(said); len(said) > 0 {
		f.failure = fmt.Errorf("port %d of pod %s cannot be reached: %q", f.port, f.pod, said)
	}
	close(f.told)
	if f.failure != nil {
		f.shut() // which may take its time
	}
}

// Read implements net.Conn.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	return n, f.why(err)
}

// Write implements net.Conn.
func (f *forwarded) Write(p []byte) (int, error) {
	n, err := f.Stream.Write(p)
	return n, f.why(err)
}

// why puts what the node said in place of an error that came of it.
func (f *forwarded) why(err error) error {
	if err == nil {
		return nil
	}
	wait := time.NewTimer(forwardErrorWait)
	defer wait.Stop()
	select {
	case <-f.told:
		if f.failure != nil {
			return f.failure
		}
	case <-wait.C:
	}
	return err
}

// Close implements net.Conn.
func (f *forwarded) Close() error {
	f.shut()
	return nil
}

func (f *forwarded) shut() {
	f.closing.Do(func() {
		_ = f.Stream.Reset() // closing the connection ends it as well
		f.streams.Close()
	})
}

// LocalAddr implements net.Conn.
func (f *forwarded) LocalAddr() net.Addr { return podAddress("kubectl-lighterage") }

// RemoteAddr implements net.Conn.
func (f *forwarded) RemoteAddr() net.Addr {
	return podAddress(f.pod.String() + ":" + strconv.Itoa(int(f.port)))
}

// The streams know no deadlines. Whoever waits closes the connection to end it.
var errNoDeadlines = fmt.Errorf("a forwarded port: %w", errors.ErrUnsupported)

// SetDeadline implements net.Conn.
func (f *forwarded) SetDeadline(time.Time) error { return errNoDeadlines }

// SetReadDeadline implements net.Conn.
func (f *forwarded) SetReadDeadline(time.Time) error { return errNoDeadlines }

// SetWriteDeadline implements net.Conn.
func (f *forwarded) SetWriteDeadline(time.Time) error { return errNoDeadlines }

type podAddress string

func (podAddress) Network() string  { return "portforward" }
func (a podAddress) String() string { return string(a) }
