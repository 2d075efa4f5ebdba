// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate_test

import (
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/calibrate"
)

// figure is one of an engine that works at so many MB/s and makes so much of 1000 bytes.
func figure(rate float64, compressed int64) calibrate.Figure {
	return calibrate.Figure{BytesPerSecond: rate * 1e6, PlainBytes: 1000, CompressedBytes: compressed}
}

var failed = calibrate.Figure{BytesPerSecond: 1e12, PlainBytes: 1000, CompressedBytes: 1, Err: errors.New("broken")}

func TestToCompress(t *testing.T) {
	for _, test := range []struct {
		name    string
		figures []calibrate.Figure
		want    int
	}{
		{"nothing", nil, -1},
		{"one", []calibrate.Figure{figure(1, 900)}, 0},
		{"all failed", []calibrate.Figure{failed, failed}, -1},
		{"the only one that works", []calibrate.Figure{failed, figure(1, 900)}, 1},
		{"a rate of nothing is no figure", []calibrate.Figure{figure(0, 100), figure(1, 900)}, 1},
		{"faster by more than a tenth", []calibrate.Figure{figure(100, 250), figure(111, 250)}, 1},
		{"faster by less than a tenth", []calibrate.Figure{figure(100, 250), figure(109, 250)}, 0},
		{
			"the static order decides among the fast", []calibrate.Figure{figure(80, 250), figure(100, 250), figure(105, 250)},
			1,
		},
		{"output at most a quarter larger", []calibrate.Figure{figure(100, 250), figure(150, 312)}, 1},
		{"output more than a quarter larger", []calibrate.Figure{figure(100, 250), figure(150, 313)}, 0},
		{"what compresses best is far too slow", []calibrate.Figure{figure(400, 302), figure(100, 203)}, 0},
		{"what compresses best is half as fast", []calibrate.Figure{figure(400, 302), figure(200, 203)}, 1},
		// Level Fast on amd64: ISA-L, zlib-ng and Go; and without ISA-L.
		{"amd64", []calibrate.Figure{figure(790, 237), figure(415, 302), figure(350, 203)}, 0},
		{"amd64 without C but zlib-ng", []calibrate.Figure{figure(415, 302), figure(350, 203)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := calibrate.ToCompress(test.figures); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestToInflate(t *testing.T) {
	for _, test := range []struct {
		name    string
		figures []calibrate.Figure
		want    int
	}{
		{"nothing", nil, -1},
		{"all failed", []calibrate.Figure{failed}, -1},
		{"the static order, unless faster by a tenth", []calibrate.Figure{figure(100, 0), figure(109, 0)}, 0},
		{"the fastest", []calibrate.Figure{figure(100, 0), failed, figure(300, 0), figure(200, 0)}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := calibrate.ToInflate(test.figures); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
