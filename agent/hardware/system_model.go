// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build dfltcc

package hardware

import "runtime"

// ThisSystem claims the accelerator: the tag is that of programs which bring a software model of it along
// (test/dfltcc), for a machine whose kernel and processor, an emulator, know nothing of it. Nothing that is released is
// built with it. The claim is proved as ever.
func ThisSystem() System {
	return System{
		Architecture: runtime.GOARCH, Auxv: [][2]uintptr{{atHWCAP, hwcapDFL}},
		CPUInfo: []byte("features\t: " + featDFL + "\n"),
	}
}
