// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// batchSize is how many bytes of TLS records go through the kernel at once. TLS itself would take a system call, and
// wake the other side, for each record of 16 KiB. With 17 of them, and 22 bytes that TLS adds to each, a block of 1 MiB
// and its head take 4 calls; with 16 the head would make it 5.
const batchSize = 17 * (16<<10 + 22)

// blocksConn is a TLS connection that carries blocks.
type blocksConn struct {
	*tls.Conn
	batches *batchedConn
}

// Early reports whether the connection may be older than the session, and begins with its claim.
func (c *blocksConn) Early() bool { return c.ConnectionState().NegotiatedProtocol == earlyProtocol }

// Write implements net.Conn. What it wrote is on its way when it returns.
func (c *blocksConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		return n, err
	}
	return n, c.batches.flush()
}

// WriteAhead is Write for what is of no use to the other side without what is written next, and goes out with it.
func (c *blocksConn) WriteAhead(p []byte) (int, error) { return c.Conn.Write(p) }

// batchedConn is what is below the TLS of a connection for blocks. It collects records once it is told to.
type batchedConn struct {
	net.Conn
	reader *bufio.Reader

	mu     sync.Mutex // TLS writes when it reads, too, if it is asked for new keys.
	writer *bufio.Writer
}

func newBatchedConn(conn net.Conn) *batchedConn { return &batchedConn{Conn: conn} }

// batch begins to collect, which a handshake could not bear. Nobody may be reading or writing.
func (c *batchedConn) batch() {
	c.reader = bufio.NewReaderSize(c.Conn, batchSize)
	c.writer = bufio.NewWriterSize(c.Conn, batchSize)
}

func (c *batchedConn) Read(p []byte) (int, error) {
	if c.reader == nil {
		return c.Conn.Read(p)
	}
	return c.reader.Read(p)
}

func (c *batchedConn) Write(p []byte) (int, error) {
	if c.writer == nil {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer.Write(p)
}

// Close implements net.Conn. TLS's last words go out, unless somebody is writing.
func (c *batchedConn) Close() error {
	if c.writer != nil && c.mu.TryLock() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(lingerTime))
		_ = c.writer.Flush() // Who does not listen any more need not know.
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

func (c *batchedConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer.Flush()
}
