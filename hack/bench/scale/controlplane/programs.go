// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/render"
)

// Addresses of the programs.
const (
	GatewayAddress = "127.0.0.1:8443"

	// ManagerMetrics and GatewayMetrics are where /metrics is.
	ManagerMetrics = "127.0.0.1:8080"
	GatewayMetrics = "127.0.0.1:8090"

	managerHealth = "127.0.0.1:8081"
	managerPprof  = "127.0.0.1:8082"
	gatewayHealth = "127.0.0.1:8091"
)

// Program is a process of the operator.
type Program struct {
	harness.PID
	Began time.Time

	command *exec.Cmd
	log     string
	ended   chan struct{}
	err     error
}

// StartManager starts the manager as the chart would, with the rights of its ServiceAccount.
func (c *Cluster) StartManager() (*Program, error) {
	return c.start(Manager, managerName, "--metrics-bind-address="+ManagerMetrics,
		"--health-probe-bind-address="+managerHealth, "--pprof-bind-address="+managerPprof)
}

// Profile writes into a file for what a manager takes CPU time meanwhile, and into one beside it, file.heap, what it
// then has in memory.
func Profile(ctx context.Context, file string, meanwhile time.Duration) error {
	if err := profile(ctx, fmt.Sprintf("profile?seconds=%.0f", meanwhile.Seconds()), file); err != nil {
		return err
	}
	return profile(ctx, "heap?gc=1", file+".heap")
}

func profile(ctx context.Context, what, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/%s", managerPprof, what)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for a profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask for a profile: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing was written to it
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for a profile: the manager answered %s", response.Status)
	}
	out, err := os.Create(file) //nolint:gosec // a path that the caller gave
	if err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}

// StartGateway starts the gateway as the chart would, as soon as a manager has made what it mounts.
func (c *Cluster) StartGateway(ctx context.Context) (*Program, error) {
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: render.Namespace, Name: pki.GatewaySecret},
		secret); err != nil {
		return nil, fmt.Errorf("read the gateway's Secret: %w", err)
	}
	directory := filepath.Join(c.directory, "gateway-config")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("make the gateway's directory: %w", err)
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write the gateway's Secret: %w", err)
		}
	}
	return c.start(Gateway, gatewayName, "--config-dir="+directory, "--bind-address="+GatewayAddress,
		"--metrics-bind-address="+GatewayMetrics, "--health-bind-address="+gatewayHealth)
}

// start starts a program with the arguments and the environment that the chart's Deployment gives it, of which the last
// arguments change what is about addresses.
func (c *Cluster) start(deployment, name string, last ...string) (*Program, error) {
	container, err := c.container(deployment)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.kubeconfig(deployment)
	if err != nil {
		return nil, err
	}
	environment, err := values(container)
	if err != nil {
		return nil, err
	}
	c.starts++
	p := &Program{ended: make(chan struct{}),
		log: filepath.Join(c.logs, fmt.Sprintf("scale-%s-%d.log", name, c.starts))}
	if err := os.MkdirAll(c.logs, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory for logs: %w", err)
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", name, err)
	}
	defer log.Close()
	p.command = exec.Command(filepath.Join(c.directory, name),
		append(append(container.Args, "--kubeconfig="+kubeconfig), last...)...)
	p.command.Env, p.command.Stdout, p.command.Stderr = append(environment, "HOME="+c.directory), log, log
	p.Began = time.Now()
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.PID = harness.PID(p.command.Process.Pid)
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (c *Cluster) container(deployment string) (corev1.Container, error) {
	object := render.Find(c.chart, "Deployment", deployment)
	if object == nil {
		return corev1.Container{}, fmt.Errorf("the chart has no Deployment %s", deployment)
	}
	var typed appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return corev1.Container{}, fmt.Errorf("read Deployment %s: %w", deployment, err)
	}
	return typed.Spec.Template.Spec.Containers[0], nil
}

// values are the environment of a container, as the kubelet would make it.
func values(container corev1.Container) ([]string, error) {
	var all []string
	for _, variable := range container.Env {
		value := variable.Value
		switch from := variable.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
			value = render.Namespace
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = container.Name
		case from.FieldRef != nil && from.FieldRef.FieldPath == "status.podIP":
			value = "127.0.0.1"
		case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
			value = strconv.FormatInt(container.Resources.Limits.Memory().Value(), 10)
		default:
			return nil, fmt.Errorf("environment variable %s of container %s is of a kind that is not known here",
				variable.Name, container.Name)
		}
		all = append(all, variable.Name+"="+value)
	}
	return all, nil
}

// Ended is closed when the process has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Failure says why the process has ended, with the end of its log.
func (p *Program) Failure() error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return errors.Join(p.err, err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s ended after %s (%w): %s", filepath.Base(p.command.Path),
		time.Since(p.Began).Round(time.Second), p.err,
		strings.Join(lines[max(0, len(lines)-3):], "\n"))
}

// Stop ends the process as the kubelet would.
func (p *Program) Stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %s", filepath.Base(p.command.Path), patience)
	}
}
