// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is what /proc counts CPU time in: USER_HZ, which is 100 on every architecture that Linux and Go share.
const tick = 10 * time.Millisecond

var errForm = errors.New("/proc has another form")

// SystemCPU returns for how long all processors together have worked and idled since the system began. Waiting for
// disks is idling. What the hypervisor has stolen is neither.
func SystemCPU() (busy, idle time.Duration, err error) {
	all, err := processorTimes()
	if err != nil {
		return 0, 0, err
	}
	for i, d := range all {
		switch i {
		case 3, 4: // idle, iowait
			idle += d
		case stolen:
		default:
			busy += d
		}
	}
	return busy, idle, nil
}

// Stolen returns for how long processors that had work have waited for the hypervisor to run them, since the system
// began.
func Stolen() (time.Duration, error) {
	all, err := processorTimes()
	return all[stolen], err
}

// stolen is the place of that time among those of a processor.
const stolen = 7

// processorTimes are those of all processors together, of what comes first in /proc/stat.
func processorTimes() (all [8]time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return all, fmt.Errorf("read the system's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 1+len(all) || fields[0] != "cpu" {
		return all, errForm
	}
	for i := range all {
		n, err := strconv.ParseInt(fields[1+i], 10, 64)
		if err != nil {
			return all, fmt.Errorf("%w: %w", errForm, err)
		}
		all[i] = time.Duration(n) * tick
	}
	return all, nil
}

// OwnCPU is the CPU time of this process.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PID is a process of which is asked what it uses.
type PID int

// CPU is the CPU time of the process without its children, to the nanosecond, which Usage has in ticks of 10 ms.
func (p PID) CPU() (time.Duration, error) {
	// The clock of a process, as clock_getcpuclockid(3) makes its number: CPUCLOCK_SCHED is 2.
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p)<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", p, err)
	}
	return time.Duration(t.Nano()), nil
}

// Usage of processes.
type Usage struct {
	// CPU time since they were started, with the children that they have waited for.
	CPU time.Duration
	// Resident memory now and the most that it was, in bytes.
	Resident, Peak int64
	// Bytes of files that were read from a disk, and that are to be written to one, less those that were removed before
	// they were written. Files on tmpfs are not among them.
	Read, Written int64
}

// Add is the usage of both.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.CPU + o.CPU, u.Resident + o.Resident, u.Peak + o.Peak, u.Read + o.Read, u.Written + o.Written}
}

// Usage returns what the process has used.
func (p PID) Usage() (u Usage, err error) {
	stat, err := p.read("stat")
	if err != nil {
		return u, err
	}
	if u.CPU, err = parseCPU(stat); err != nil {
		return u, err
	}
	status, err := p.read("status")
	if err != nil {
		return u, err
	}
	for name, into := range map[string]*int64{"VmRSS": &u.Resident, "VmHWM": &u.Peak} {
		kib, err := field(status, name)
		if err != nil {
			return u, err
		}
		*into = kib << 10
	}
	files, err := p.read("io")
	if err != nil {
		return u, err
	}
	u.Read, u.Written, err = parseIO(files)
	return u, err
}

// parseCPU reads /proc/PID/stat.
func parseCPU(stat string) (cpu time.Duration, err error) {
	// The name of the program may hold anything.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 15 {
		return 0, errForm
	}
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errForm, err)
		}
		cpu += time.Duration(n) * tick
	}
	return cpu, nil
}

// parseIO reads /proc/PID/io.
func parseIO(text string) (read, written int64, err error) {
	if !strings.Contains(text, "cancelled_write_bytes:") {
		return 0, 0, errForm
	}
	read, err1 := field(text, "read_bytes")
	written, err2 := field(text, "write_bytes")
	cancelled, err3 := field(text, "cancelled_write_bytes")
	return read, written - cancelled, errors.Join(err1, err2, err3)
}

// field finds a number in lines of names and values; 0 when the name is not there.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", errForm, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

func (p PID) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(p)), name))
	if err != nil {
		return "", fmt.Errorf("look at process %d: %w", p, err)
	}
	return string(text), nil
}

// Child returns this process's child of that name.
func Child(name string) (PID, error) {
	pids, err := processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		stat, err := pid.read("stat")
		if err != nil {
			continue // it has just ended
		}
		begin, end := strings.Index(stat, "("), strings.LastIndex(stat, ")")
		fields := strings.Fields(stat[end+1:])
		if begin < 0 || len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if strings.HasPrefix(name, stat[begin+1:end]) { // the kernel keeps 15 characters
			return pid, nil
		}
	}
	return 0, fmt.Errorf("there is no process %s", name)
}

func processes() ([]PID, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var all []PID
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all = append(all, PID(pid))
		}
	}
	return all, nil
}

// Group is that of processes which Start has made of one.
type Group int

func (g Group) each(do func(PID) error) error {
	pids, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if of, err := syscall.Getpgid(int(pid)); err == nil && of == int(g) {
			if err := do(pid); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // it has ended
				return err
			}
		}
	}
	return nil
}

// Usage returns what all of its processes have used.
func (g Group) Usage() (total Usage, err error) {
	err = g.each(func(p PID) error {
		u, err := p.Usage()
		if err == nil {
			total = total.Add(u)
		}
		return err
	})
	return total, err
}

// Memory returns the resident memory of its processes in bytes, shared pages divided among those who share them.
func (g Group) Memory() (total int64, err error) {
	err = g.each(func(p PID) error {
		text, err := p.read("smaps_rollup")
		if err != nil {
			return err
		}
		kib, err := field(text, "Pss")
		total += kib << 10
		return err
	})
	return total, err
}

// CPUByProcess returns the CPU time of all processes but those that are left out: of programs, and of the kernel's
// threads.
func CPUByProcess(without map[PID]bool) (programs, kernel map[PID]time.Duration, err error) {
	pids, err := processes()
	if err != nil {
		return nil, nil, err
	}
	programs, kernel = map[PID]time.Duration{}, map[PID]time.Duration{}
	for _, pid := range pids {
		if without[pid] {
			continue
		}
		stat, err := pid.read("stat")
		if err != nil {
			continue // it has just ended
		}
		spent, thread, err := parseProcess(stat)
		switch {
		case err != nil:
			return nil, nil, err
		case thread:
			kernel[pid] = spent
		default:
			programs[pid] = spent
		}
	}
	return programs, kernel, nil
}

// parseProcess reads /proc/PID/stat: the CPU time of the process without its children, and whether it is a thread of
// the kernel.
func parseProcess(stat string) (spent time.Duration, kernel bool, err error) {
	const kernelThread = 0x00200000 // PF_KTHREAD
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 15 {
		return 0, false, errForm
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", errForm, err)
	}
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("%w: %w", errForm, err)
		}
		spent += time.Duration(n) * tick
	}
	return spent, flags&kernelThread != 0, nil
}
