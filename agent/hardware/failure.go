// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

// failure is why a proof did not succeed.
type failure struct {
	reason  Reason
	message string
}

func (f *failure) Error() string { return f.message }

// maxMessage is the length of the longest message in bytes.
const maxMessage = 1000

func notUsed(f *failure) Verdict {
	message := f.message
	if f.reason == SelfTestFailed {
		message += ". Software does the work; restart the pod to test again, and if it stays so, have the machine's " +
			"hardware and microcode checked"
	}
	return Verdict{
		State: NotUsed, Reason: f.reason, Message: message[:min(len(message), maxMessage)], InflateMinSize: NeverInflate,
	}
}

func selfTestFailed(format string, args ...any) *failure {
	return &failure{SelfTestFailed, "the self-test of the accelerator failed: " + fmt.Sprintf(format, args...)}
}

// idle returns why an encoder's or decoder's last call did not use the accelerator,
// and nil when it did. what names the call.
func idle(coder any, what string) *failure {
	witness, ok := coder.(codec.Witness)
	if !ok {
		return selfTestFailed("%s: the engine does not say whether it used the accelerator", what)
	}
	if witness.UsedHardware() {
		return nil
	}
	obstacle := zlibng.OtherObstacle
	if e, ok := coder.(zlibng.Explained); ok {
		obstacle = e.Obstacle()
	}
	switch obstacle {
	case zlibng.NotBuilt:
		return &failure{LibraryWithout, "this machine has DFLTCC, but the zlib-ng in this program was built without it: " +
			"use the project's image, or build zlib-ng with hack/zlib-ng/build.sh"}
	case zlibng.OtherLevel:
		return &failure{LevelNotAccelerated, what +
			": the zlib-ng in this program was built to use DFLTCC at other levels: " +
			"use the project's image, or build zlib-ng with -DDFLTCC_LEVEL_MASK=0x3fe as hack/zlib-ng/build.sh does"}
	case zlibng.OtherWindow:
		return &failure{
			WindowNotAccelerated,
			what + ": DFLTCC takes a window of 32 KiB alone, and the stream has another: use the project's image",
		}
	case zlibng.NoInstruction:
		return selfTestFailed(
			"%s: Linux names DFLTCC, but the library does not find the functions it needs (facility 151 with GDHT, CMPR and "+
				"XPND)",
			what,
		)
	default:
		return selfTestFailed("%s: the library did not use it, and software did the work", what)
	}
}
