// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package movers configures the servers of programs that move trees beside ours: rsync's daemon, stunnel and OpenSSH.
// Files that a function writes are in the directory that it is given, where their names must be free.
package movers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// Rsync are the options of VolSync's mover.
func Rsync() []string { return []string{"-aAhHSxz", "--delete"} }

// RsyncDaemon configures a daemon whose module data is a directory that it may write to.
func RsyncDaemon(dir, destination string) (config string, err error) {
	return write(dir, "rsyncd.conf", fmt.Sprintf("use chroot = no\nuid = %d\ngid = %d\n[data]\npath = %s\nread only = false\n",
		os.Getuid(), os.Getgid(), destination))
}

// Tunnel configures two stunnels that speak TLS 1.3: what connects to entrance comes out at exit, with the server in
// between. All are addresses with ports.
func Tunnel(dir, entrance, server, exit string) (clientConfig, serverConfig string, err error) {
	if err := agents.ServerFiles(dir); err != nil {
		return "", "", err
	}
	const both = "foreground = yes\npid =\nsslVersion = TLSv1.3\n"
	serverConfig, err = write(dir, "server.conf", fmt.Sprintf("%s[tunnel]\naccept = %s\nconnect = %s\ncert = %s\n",
		both, server, exit, filepath.Join(dir, "both.pem")))
	if err != nil {
		return "", "", err
	}
	clientConfig, err = write(dir, "client.conf", fmt.Sprintf("%s[tunnel]\nclient = yes\naccept = %s\nconnect = %s\n",
		both, entrance, server))
	return clientConfig, serverConfig, err
}

// SSHD is OpenSSH's server.
const SSHD = "/usr/sbin/sshd"

// HasSSHD says whether it is there.
func HasSSHD() bool {
	_, err := os.Stat(SSHD)
	return err == nil
}

// SSH configures OpenSSH's server at an address, which accepts the key that is returned and serves SFTP.
func SSH(ctx context.Context, dir, address string) (config, key string, err error) {
	key, host := filepath.Join(dir, "key"), filepath.Join(dir, "host")
	for _, path := range []string{key, host} {
		if err := harness.Command(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path); err != nil {
			return "", "", err
		}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", "", fmt.Errorf("configure sshd: %w", err)
	}
	config, err = write(dir, "sshd.conf", fmt.Sprintf("ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s.pub\n"+
		"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"+
		// What the user's shell does when it starts is nobody's to measure: rclone starts one for each file.
		"SetEnv HOME=/nonexistent\n",
		address, host, key))
	if err != nil {
		return "", "", err
	}
	// Debian's sshd wants this directory, which its service makes.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return "", "", fmt.Errorf("make a directory for sshd: %w", err)
	}
	return config, key, nil
}

// Shell is what rsync starts to reach a port of OpenSSH's server with a key.
func Shell(port, key string) string {
	return fmt.Sprintf("ssh -p %s -i %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
		port, key)
}

// Versions are those of rsync, stunnel, OpenSSH and rclone, whose binary it is given; empty of what is missing.
func Versions(ctx context.Context, rclone string) []string {
	openssh := ""
	if HasSSHD() {
		openssh = harness.Version(ctx, "ssh", "-V")
	}
	return []string{
		harness.Version(ctx, "rsync", "--version"),
		// stunnel speaks of its configuration first.
		harness.Version(ctx, "sh", "-c", "stunnel -version 2>&1 | sed -n '/^stunnel [0-9]/p'"), openssh,
		harness.Version(ctx, rclone, "version"),
	}
}

func write(dir, name, text string) (path string, err error) {
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write a configuration: %w", err)
	}
	return path, nil
}
