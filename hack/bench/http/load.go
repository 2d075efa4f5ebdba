// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// turn is what came of load on one contender.
type turn struct {
	requests float64 // per second
	cpu      float64 // milliseconds for a response, of the whole system
	own      float64 // the same of the contender alone
	p99      float64 // milliseconds
	wire     float64 // bytes of a response
}

func requestsOf(t turn) float64 { return t.requests }
func cpuOf(t turn) float64      { return t.cpu }
func ownOf(t turn) float64      { return t.own }
func p99Of(t turn) float64      { return t.p99 }
func wireOf(t turn) float64     { return t.wire }

// loadOn makes load and counts the CPU time of the whole system meanwhile.
func (b *bench) loadOn(ctx context.Context, k key) (turn, error) {
	everybody := slices.Concat(b.all, b.engines)
	c := everybody[slices.IndexFunc(everybody, func(c *contender) bool { return c.name == k.contender })]
	accept := "identity"
	if k.compressed {
		accept = c.coding
	}
	before, _, err := harness.SystemCPU()
	if err != nil {
		return turn{}, err
	}
	ownBefore, err := c.Group().Usage()
	if err != nil {
		return turn{}, err
	}
	load := wrk
	if k.protocol == "2" {
		load = h2load
	}
	t, count, err := load(ctx, fmt.Sprintf("https://%s/%s/%d", c.address, k.kind, k.size), accept, b.turn)
	if err != nil {
		return turn{}, err
	}
	after, _, err := harness.SystemCPU()
	if err != nil {
		return turn{}, err
	}
	ownAfter, err := c.Group().Usage()
	t.cpu = (after - before).Seconds() * 1000 / count
	t.own = (ownAfter.CPU - ownBefore.CPU).Seconds() * 1000 / count
	return t, err
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in .*, ([\d.]+)([KMG]?B) read`)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)`)
	wrk99       = regexp.MustCompile(`(?m)^\s+99%\s+([\d.]+)(us|ms|s)`)
	wrkErrors   = regexp.MustCompile(
		`(?m)^\s+(Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)|Non-2xx.*)$`,
	)
	h2Rate     = regexp.MustCompile(`(?m)^finished in .*, ([\d.]+) req/s`)
	h2Requests = regexp.MustCompile(`(?m)^requests: (\d+) total, .* (\d+) succeeded, (\d+) failed, (\d+) errored`)
)

// wrk makes load over HTTP/1.1 and returns how many requests were answered.
func wrk(ctx context.Context, url, accept string, d time.Duration) (turn, float64, error) {
	return loaded(ctx, parseWrk, "wrk", "-t2", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%.0fs", d.Seconds()),
		"--latency", "-H", "Accept-Encoding: "+accept, url)
}

// h2load makes load over HTTP/2.
func h2load(ctx context.Context, url, accept string, d time.Duration) (turn, float64, error) {
	return loaded(ctx, parseH2load, "h2load", "-t2", fmt.Sprintf("-c%d", connections), "-m4",
		fmt.Sprintf("-D%.0f", d.Seconds()), "-H", "Accept-Encoding: "+accept, url)
}

// wrkMany makes load with many connections and returns how many requests were answered by second.
func wrkMany(ctx context.Context, c *contender, d time.Duration) (float64, error) {
	_, rate, err := loaded(ctx, func(out string) (turn, float64, error) {
		rate := wrkRate.FindStringSubmatch(out)
		if rate == nil {
			return turn{}, 0, errNotUnderstood
		}
		return turn{}, number(rate[1]), nil
	}, "wrk", "-t2", fmt.Sprintf("-c%d", manyConnections), fmt.Sprintf("-d%.0fs", d.Seconds()), "--timeout", "20s",
		"-H", "Accept-Encoding: gzip", fmt.Sprintf("https://%s/xml/20000", c.address))
	return rate, err
}

// loaded runs a program that makes load, and reads what it says.
func loaded(
	ctx context.Context, parse func(string) (turn, float64, error), name string, args ...string,
) (turn, float64, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return turn{}, 0, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	t, count, err := parse(string(out))
	if err != nil {
		err = fmt.Errorf("%w; %s says:\n%s", err, name, out)
	}
	return t, count, err
}

var errNotUnderstood = errors.New("what it says is not understood")

func parseWrk(out string) (turn, float64, error) {
	requests, rate, late := wrkRequests.FindStringSubmatch(out), wrkRate.FindStringSubmatch(out),
		wrk99.FindStringSubmatch(out)
	if requests == nil || rate == nil || late == nil {
		return turn{}, 0, errNotUnderstood
	}
	if m := wrkErrors.FindStringSubmatch(out); m != nil {
		return turn{}, 0, fmt.Errorf("requests failed: %s", m[1])
	}
	count, read := number(requests[1]), number(requests[2])*map[string]float64{
		"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30,
	}[requests[3]]
	if count == 0 {
		return turn{}, 0, errors.New("no request was answered")
	}
	return turn{
		requests: number(rate[1]), wire: read / count,
		p99: number(late[1]) * map[string]float64{"us": 0.001, "ms": 1, "s": 1000}[late[2]],
	}, count, nil
}

// number parses what a pattern has matched as one.
func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return f
}

func parseH2load(out string) (turn, float64, error) {
	rate, requests := h2Rate.FindStringSubmatch(out), h2Requests.FindStringSubmatch(out)
	if rate == nil || requests == nil {
		return turn{}, 0, errNotUnderstood
	}
	if requests[3] != "0" || requests[4] != "0" {
		return turn{}, 0, fmt.Errorf("%s requests failed, %s broke", requests[3], requests[4])
	}
	count := number(requests[2])
	if count == 0 {
		return turn{}, 0, errors.New("no request was answered")
	}
	return turn{requests: number(rate[1])}, count, nil
}

// check sees that everybody does what is measured.
func (b *bench) check(ctx context.Context) error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // The certificate was made for this run.
	}}
	for _, c := range slices.Concat(b.all, b.engines) {
		for _, accept := range []string{"identity", c.coding} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s/xml/20000", c.address), nil)
			if err != nil {
				return err
			}
			req.Header.Set("Accept-Encoding", accept)
			res, err := client.Do(req)
			if err != nil {
				return fmt.Errorf("ask %s: %w", c.name, err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				return fmt.Errorf("ask %s: %w", c.name, err)
			}
			coded := strings.TrimPrefix(accept, "identity")
			if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != coded ||
				(len(body) == 20000) != (coded == "") {
				return fmt.Errorf(
					"%s answers %s to %s with %d bytes of coding %q", c.name, res.Status, accept, len(body),
					res.Header.Get("Content-Encoding"),
				)
			}
			if res.TLS.Version != tls.VersionTLS13 {
				return fmt.Errorf("%s does not speak TLS 1.3", c.name)
			}
		}
	}
	return nil
}
