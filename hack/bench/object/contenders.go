// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Names of contenders.
const (
	oursName    = "lighterage"
	archiveName = "lighterage, form Archive"
	rcloneName  = "rclone copy"
	resticName  = "restic backup and restore"
)

// turn is what a contender has to work with: directories, of which dir is its own, and a prefix of the bucket.
type turn struct {
	*server
	source, destination, dir, prefix string
}

// client is a command line, with a directory and variables of its own.
type client struct {
	name, in  string
	args, env []string
}

func (c *client) command(ctx context.Context, s *server) *exec.Cmd {
	command := s.inSpace(ctx, c.name, c.args...)
	command.Dir, command.Env = c.in, append(os.Environ(), c.env...)
	return command
}

// contender is one way to store a tree and to restore it.
type contender struct {
	name string
	// prepare is what is not measured; nil: nothing.
	prepare        func(context.Context, turn) error
	store, restore func(context.Context, turn) (*client, error)
}

func (o *options) contenders() []contender {
	return []contender{ours(o.agent), archives(o.agent), rclone(o.rclone), restic(o.restic)}
}

// ours puts an object for each file.
func ours(agent string) contender {
	return lighterage(oursName, agent, func(*wirev1.SendConfig) {})
}

// archives packs files into archives, with the codec of restic.
func archives(agent string) contender {
	return lighterage(archiveName, agent, func(c *wirev1.SendConfig) {
		c.Form, c.Compression.Codecs = wirev1.Form_FORM_ARCHIVE, []string{"zstd"}
	})
}

// lighterage runs the agent as it runs in its pod.
func lighterage(name, agent string, change func(*wirev1.SendConfig)) contender {
	run := func(t turn, mode string, c *wirev1.LocalConfig) (*client, error) {
		dir := filepath.Join(t.dir, mode)
		if err := configure(dir, c); err != nil {
			return nil, err
		}
		return &client{
			name: agent,
			args: []string{"local", "--config-dir", dir, "--termination-log", filepath.Join(dir, "report.json")},
			env:  []string{fmt.Sprintf("GOMEMLIMIT=%d", 512<<20/10*9)}, // As in agents' pods by default.
		}, nil
	}
	return contender{
		name:    name,
		prepare: func(_ context.Context, t turn) error { return t.writeCredentials() },
		store: func(_ context.Context, t turn) (*client, error) {
			c := t.config()
			c.Send.Volume, c.Send.Path, c.DestinationStore = t.source, ".", t.end()
			change(c.Send)
			return run(t, "store", c)
		},
		restore: func(_ context.Context, t turn) (*client, error) {
			c := t.config()
			c.Receive.Volume, c.Receive.Path, c.SourceStore = t.destination, ".", t.end()
			return run(t, "restore", c)
		},
	}
}

func (t turn) config() *wirev1.LocalConfig {
	return &wirev1.LocalConfig{
		Send: &wirev1.SendConfig{
			RunId: "bench", Attempt: 1, Verify: true, ControlAddress: "127.0.0.1:0", CheckpointInterval: 64 << 20,
			Compression: &wirev1.CompressionSettings{
				Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
				Codecs: []string{"deflate"},
			},
		},
		Receive: &wirev1.ReceiveConfig{
			RunId: "bench", Attempt: 1, SenderNamespace: "bench", SenderName: "tree",
		},
		Transfer: "bench/tree (1)",
	}
}

// writeCredentials writes what end names.
func (t turn) writeCredentials() error {
	dir := filepath.Join(t.dir, "credentials")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make a directory for credentials: %w", err)
	}
	for name, content := range map[string]string{
		wirev1.ObjectStoreAccessKeyIDKey: accessKey, wirev1.ObjectStoreSecretAccessKeyKey: secretKey,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
	}
	return nil
}

func (t turn) end() *wirev1.StoreEnd {
	return &wirev1.StoreEnd{
		Store: &wirev1.ObjectStoreConfig{
			Endpoint: t.endpoint, CaBundle: t.ca, Bucket: bucketName, Prefix: t.prefix, Region: region,
			CredentialsDirectory: filepath.Join(t.dir, "credentials"),
		},
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true},
	}
}

// configure writes what the agent has mounted.
func configure(dir string, c *wirev1.LocalConfig) error {
	text, err := protojson.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the configuration of the agent: %w", err)
	}
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	return agents.Files(dir, ca, ca, pki.Template{
		Identity: pki.TransferIdentity("bench", "bench", "tree"), DNSNames: []string{"sender.send.lighterage.internal"},
	}, map[string][]byte{"config.json": text})
}

// rclone has as many transfers at once as pay on this machine, and does not ask for each object that it has put.
func rclone(path string) contender {
	run := func(t turn, args ...string) *client {
		return &client{
			name: path, args: append(args, "--links", "--transfers", "16", "--checkers", "16", "--fast-list",
				"--s3-no-check-bucket", "--s3-no-head", "--ca-cert", t.caFile),
			env: []string{
				"RCLONE_CONFIG=" + os.DevNull, "RCLONE_CONFIG_STORE_TYPE=s3", "RCLONE_CONFIG_STORE_PROVIDER=Other",
				"RCLONE_CONFIG_STORE_ACCESS_KEY_ID=" + accessKey, "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY=" + secretKey,
				"RCLONE_CONFIG_STORE_ENDPOINT=" + t.endpoint, "RCLONE_CONFIG_STORE_REGION=" + region,
			},
		}
	}
	return contender{
		name: rcloneName,
		store: func(_ context.Context, t turn) (*client, error) {
			return run(t, "copy", t.source, "store:"+bucketName+"/"+t.prefix), nil
		},
		restore: func(_ context.Context, t turn) (*client, error) {
			return run(t, "copy", "store:"+bucketName+"/"+t.prefix, t.destination), nil
		},
	}
}

// restic compresses and encrypts, and has a repository that exists.
func restic(path string) contender {
	run := func(t turn, in string, args ...string) *client {
		return &client{
			name: path, in: in, args: append(args, "--quiet", "--cacert", t.caFile),
			env: []string{
				"RESTIC_REPOSITORY=s3:" + t.endpoint + "/" + bucketName + "/" + t.prefix, "RESTIC_PASSWORD=example",
				"RESTIC_CACHE_DIR=" + filepath.Join(t.dir, "cache"), "AWS_DEFAULT_REGION=" + region,
				"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey,
			},
		}
	}
	return contender{
		name: resticName,
		prepare: func(ctx context.Context, t turn) error {
			command := run(t, t.dir, "init").command(ctx, t.server)
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("make a repository: %w: %s", err, out)
			}
			return nil
		},
		store: func(_ context.Context, t turn) (*client, error) {
			return run(t, t.source, "backup", "."), nil
		},
		restore: func(_ context.Context, t turn) (*client, error) {
			return run(t, t.dir, "restore", "latest", "--target", t.destination), nil
		},
	}
}
