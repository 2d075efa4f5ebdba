// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// configError says that the agent cannot start as it was set up.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }

func (e *configError) Unwrap() error { return e.err }

func badConfig(format string, args ...any) error {
	return &configError{fmt.Errorf(format, args...)}
}

// maxConfig is the largest config.json in bytes.
const maxConfig = 1 << 20

// readConfig reads config.json into a message. The manager may be of another release: what is unknown is ignored,
// unless it is critical.
func (a *agent) readConfig(m proto.Message) error {
	path := filepath.Join(a.configDir, "config.json")
	info, err := os.Stat(path)
	if err != nil {
		return badConfig("read the configuration: %w", err)
	}
	if info.Size() > maxConfig {
		return badConfig("read the configuration: %s has %d bytes; the limit is %d", path, info.Size(), maxConfig)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return badConfig("read the configuration: %w", err)
	}
	if err := wirev1.UnmarshalConfig(b, m); err != nil {
		return badConfig("read the configuration %s: %w", path, err)
	}
	return nil
}

// required returns an error that names the first setting without a value. Names and values alternate.
func required(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return badConfig("the configuration lacks %s", pairs[i])
		}
	}
	return nil
}
