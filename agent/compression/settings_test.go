// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compression_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func settings(changes ...func(*wirev1.CompressionSettings)) *wirev1.CompressionSettings {
	c := &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
		Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST,
		Prices:    &wirev1.Prices{CpuHourNanos: 40_000_000, NetworkGibNanos: 20_000_000},
		Codecs:    []string{"zstd", "deflate"}, SoftwareEngines: []string{"zlib-ng"},
		HardwareMinSize: 1 << 63, SoftwareMinSize: 512, PreferHardware: true,
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func TestRead(t *testing.T) {
	got, err := compression.Read(settings())
	if err != nil {
		t.Fatal(err)
	}
	want := compression.Settings{
		Policy: policy.Settings{
			Mode: policy.Auto, Level: codec.High, Objective: policy.Cost, Prices: policy.Prices{CPUHour: 0.04, NetworkGiB: 0.02},
			HardwareMinSize: 1<<63 - 1, SoftwareMinSize: 512, PreferHardware: true,
		},
		Codecs: []codec.ID{codec.Zstd, codec.Deflate}, Engines: []string{"zlib-ng"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReadUnknown(t *testing.T) {
	for name, change := range map[string]func(*wirev1.CompressionSettings){
		"mode":  func(c *wirev1.CompressionSettings) { c.Mode = 99 },
		"level": func(c *wirev1.CompressionSettings) { c.Level = 99 },
		"codec": func(c *wirev1.CompressionSettings) { c.Codecs = []string{"lzo"} },
		"all":   func(c *wirev1.CompressionSettings) { proto.Reset(c) },
	} {
		if got, err := compression.Read(settings(change)); err == nil {
			t.Errorf("another %s: %+v", name, got)
		}
	}
}
