// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// contender is a reverse proxy that listens for TLS.
type contender struct {
	name    string
	address string
	// coding that clients ask for.
	coding string
	*harness.Process
}

// ours reports whether it is the agent as an agent would be run.
func (c *contender) ours() bool { return c.name == ourName }

const ourName = "Lighterage"

// contenders starts all of them.
func (b *bench) contenders(ctx context.Context, agent, caddy string) error {
	for _, s := range []struct {
		name  string
		start func(context.Context, *contender) error
	}{
		{"nginx", b.nginx},
		{"HAProxy", b.haproxy},
		{"Caddy", func(ctx context.Context, c *contender) error { return b.caddy(ctx, c, caddy) }},
		{ourName, func(ctx context.Context, c *contender) error { return b.agent(ctx, c, agent) }},
		{beforeName, func(ctx context.Context, c *contender) error { return b.agent(ctx, c, b.part.before) }},
	} {
		if s.name == beforeName && b.part.before == "" || s.name != beforeName && !b.part.names(s.name) {
			continue
		}
		if err := b.begin(ctx, s.name, "gzip", &b.all, s.start); err != nil {
			return err
		}
	}
	if b.part.only != "" {
		return nil
	}
	for _, engine := range []string{"isa-l", "zlib-ng", "go", "libzstd"} {
		coding := "gzip"
		if engine == "libzstd" {
			coding = "zstd"
		}
		if err := b.begin(ctx, engine, coding, &b.engines, func(ctx context.Context, c *contender) error {
			return b.agent(ctx, c, agent, engine)
		}); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a contender and puts it to others.
func (b *bench) begin(
	ctx context.Context, name, coding string, to *[]*contender, start func(context.Context, *contender) error,
) error {
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	c := &contender{name: name, address: address, coding: coding}
	if err := start(ctx, c); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	*to = append(*to, c)
	return nil
}

const suite = "TLS_AES_128_GCM_SHA256"

func (b *bench) nginx(ctx context.Context, c *contender) error {
	dir, err := b.directory(c.name)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`daemon off;
worker_processes 2;
pid %[1]s/pid;
error_log stderr error;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream backend { server %[2]s; keepalive 256; keepalive_requests 100000000; }
	server {
		listen %[3]s ssl http2 backlog=4096;
		ssl_certificate %[4]s/tls.crt;
		ssl_certificate_key %[4]s/tls.key;
		ssl_protocols TLSv1.3;
		ssl_conf_command Ciphersuites %[5]s;
		keepalive_requests 100000000;
		gzip on;
		gzip_comp_level 1;
		gzip_min_length 1;
		gzip_proxied any;
		gzip_vary on;
		gzip_types application/xml application/json;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_buffer_size 16k;
			proxy_buffers 20 16k;
			proxy_max_temp_file_size 0;
		}
	}
}
`, dir, b.backendAddress, c.address, b.certificates, suite)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	c.Process, err = b.spawn(ctx, c.address, "nginx", "-e", "stderr", "-p", dir, "-c", path)
	return err
}

func (b *bench) haproxy(ctx context.Context, c *contender) error {
	dir, err := b.directory(c.name)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`global
	nbthread 2
	maxconn 4096
	ssl-default-bind-ciphersuites %[5]s
	ssl-default-bind-options ssl-min-ver TLSv1.3
defaults
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	http-reuse always
	option forwardfor
frontend clients
	bind %[3]s ssl crt %[4]s/both.pem alpn h2,http/1.1 backlog 4096
	compression algo gzip
	compression type application/xml application/json
	default_backend servers
backend servers
	server backend %[2]s
%[1]s`, "", b.backendAddress, c.address, b.certificates, suite)
	path := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	c.Process, err = b.spawn(ctx, c.address, "haproxy", "-db", "-f", path)
	return err
}

func (b *bench) caddy(ctx context.Context, c *contender, program string) error {
	dir, err := b.directory(c.name)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`{
	admin off
	auto_https off
	default_sni localhost
	persist_config off
	log { level ERROR }
}
https://%[2]s {
	tls %[3]s/tls.crt %[3]s/tls.key { protocols tls1.3 tls1.3 }
	encode gzip
	reverse_proxy %[1]s { transport http { keepalive_idle_conns_per_host 256 } }
}
`, b.backendAddress, c.address, b.certificates)
	// One setting a line.
	config = strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(config)
	path := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	c.Process, err = b.spawn(ctx, c.address, program, "run", "--config", path, "--adapter", "caddyfile")
	return err
}

// agent starts the agent with the engines that it may use; none: as it finds best.
func (b *bench) agent(ctx context.Context, c *contender, program string, engines ...string) error {
	dir, err := b.directory("agent-" + c.name)
	if err != nil {
		return err
	}
	c.Process, err = StartAgent(ctx, program, dir, &wirev1.HTTPConfig{
		ListenAddress: c.address, ServingDirectory: b.certificates,
		Backend: &wirev1.HTTPBackend{Address: b.backendAddress}, Codings: []string{c.coding},
		Compression: &wirev1.CompressionSettings{SoftwareEngines: engines},
	})
	if err == nil {
		b.processes = append(b.processes, c.Process)
	}
	return err
}

// StartAgent starts the agent in mode http, which compresses each body at level Fast and finds its backend on this
// machine. Its configuration is completed, and is written to a directory that exists.
func StartAgent(ctx context.Context, program, dir string, config *wirev1.HTTPConfig) (*harness.Process, error) {
	config.ControlAddress, config.HealthAddress = "127.0.0.1:0", "127.0.0.1:0"
	config.Backend.HealthInterval = durationpb.New(1 << 30)
	config.DialPolicy = &wirev1.DialPolicy{AllowLoopback: true}
	config.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	config.Compression.Level = wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST
	// On loopback another objective would have bodies sent as they are, and others compress each of them.
	config.Compression.Objective = wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES
	text, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of the agent: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of the agent: %w", err)
	}
	return harness.StartListening(
		ctx, exec.CommandContext(ctx, program, "http", "-config-dir", dir), config.GetListenAddress(),
	)
}
