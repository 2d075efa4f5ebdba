// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package deflatedict_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/cover"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
)

func TestTrain(t *testing.T) {
	samples := codectest.Orders(7, 300, 1000)
	for _, size := range []int{deflatedict.MinSize, 8 << 10, deflatedict.MaxSize} {
		one, used, err := deflatedict.Train(samples, size)
		if err != nil || used != len(samples) {
			t.Fatalf("%d samples, %v", used, err)
		}
		again, _, err := deflatedict.Train(samples, size)
		if err != nil || !bytes.Equal(one, again) {
			t.Errorf("%d bytes: the same samples make another dictionary: %v", size, err)
		}
		number, err := deflatedict.Number(one)
		if err != nil || number < cover.FirstNumber || number > cover.LastNumber {
			t.Errorf("number %d, %v", number, err)
		}
		other, _, err := deflatedict.Train(codectest.Orders(8, 300, 1000), size)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := deflatedict.Number(other); err != nil || n == number {
			t.Errorf("another dictionary has number %d, %v", n, err)
		}
		if len(one) > size || len(one) < size/8 {
			t.Errorf("%d bytes of %d", len(one), size)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, size := range []int{0, deflatedict.MinSize - 1, deflatedict.MaxSize + 1} {
		if _, _, err := deflatedict.Train(codectest.Orders(1, 50, 500), size); err == nil {
			t.Errorf("a dictionary of %d bytes", size)
		}
		if _, err := deflatedict.Number(make([]byte, size)); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%d bytes are a dictionary: %v", size, err)
		}
	}
	if _, _, err := deflatedict.Train(codectest.Orders(1, 15, 500), 8<<10); !errors.Is(err, cover.ErrTooFew) {
		t.Errorf("15 samples: %v", err)
	}
}
