// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"os"
	"strconv"
	"strings"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// interruptAccounting says whether this kernel keeps the time of interrupts apart from that of processes.
func interruptAccounting(kernel string) wirev1.InterruptAccounting {
	irq, irqErr := readShort("/proc/pressure/irq")
	_, cpuErr := readShort("/proc/pressure/cpu")
	return accountingOf(irq, irqErr == nil, cpuErr == nil, kernel)
}

// accountingOf reads it from irq.pressure, which Linux has since 6.1 where it accounts interrupts. Its total stays at 0
// where that was compiled in and is not done. irq and pressure say which files of /proc/pressure can be read: without
// cpu the kernel measures no pressure at all, and says nothing.
func accountingOf(text string, irq, pressure bool, kernel string) wirev1.InterruptAccounting {
	if irq {
		_, total, found := strings.Cut(text, "total=")
		n, err := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
		switch {
		case !found || err != nil:
			return wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_UNSPECIFIED
		case n == 0:
			return wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_OFF
		}
		return wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_ON
	}
	if pressure && atLeast(kernel, 6, 1) {
		return wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_OFF
	}
	return wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_UNSPECIFIED
}

// atLeast reports whether a kernel's release is of that version or a later one.
func atLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	has, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	then, err := strconv.Atoi(rest)
	return err == nil && (has > major || has == major && then >= minor)
}

func readShort(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	return string(text), err
}
