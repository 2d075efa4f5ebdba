// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package online

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// others stand for other machines: they are to find a processor whenever they need one.
const others = "others"

// serving is the pod of the endpoint.
const serving = "endpoint"

// requests are thousandths of a CPU, by pod: what the manager has agents request if nobody says otherwise.
var requests = map[string]int{serving: 100, "sender": 100, "receiver": 100, others: 10000}

// pods are control groups with the CPU weights that the kubelet gives pods for what they request.
type pods string

// makePods needs root and the controller cpu of control groups of version 1.
func makePods() (pods, error) {
	p := pods(filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprintf("lighterage-bench-%d", os.Getpid())))
	if err := os.Mkdir(string(p), 0o755); err != nil {
		return "", fmt.Errorf("make a control group for pods (version 1, as root): %w", err)
	}
	errs := []error{p.weigh("", machine)}
	for name, millis := range requests {
		errs = append(errs, os.Mkdir(filepath.Join(string(p), name), 0o755), p.weigh(name, millis))
	}
	if err := errors.Join(errs...); err != nil {
		return "", errors.Join(fmt.Errorf("make control groups: %w", err), p.remove())
	}
	return p, nil
}

// machine is what all pods request together: what else runs on the machine is to disturb them little.
const machine = 250_000

// weigh gives a pod the weight of what it requests, in thousandths of a CPU.
func (p pods) weigh(name string, millis int) error {
	file := filepath.Join(string(p), name, "cpu.shares")
	if err := os.WriteFile(file, strconv.AppendInt(nil, int64(millis)*1024/1000, 10), 0o644); err != nil {
		return fmt.Errorf("weigh the control group of %s: %w", name, err)
	}
	return nil
}

// put moves a process with its threads into a pod.
func (p pods) put(name string, pid harness.PID) error {
	file := filepath.Join(string(p), name, "cgroup.procs")
	if err := os.WriteFile(file, strconv.AppendInt(nil, int64(pid), 10), 0o644); err != nil {
		return fmt.Errorf("move process %d into the control group of %s: %w", pid, name, err)
	}
	return nil
}

// remove removes all, whose processes have ended.
func (p pods) remove() error {
	var errs []error
	for name := range requests {
		if err := os.Remove(filepath.Join(string(p), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.Remove(string(p)))...)
}
