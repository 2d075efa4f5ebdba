// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"

	"golang.org/x/sys/unix"
)

// rights are what the process may do to files that it made.
type rights struct {
	// privileged: it may give them any owner and keep setuid and setgid.
	privileged bool
	uid        uint32
	groups     map[uint32]bool
}

func findRights() rights {
	r := rights{uid: uint32(os.Geteuid()), groups: map[uint32]bool{uint32(os.Getegid()): true}}
	all, _ := os.Getgroups() // Without them less is kept, and counted.
	for _, g := range all {
		r.groups[uint32(g)] = true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return r
	}
	const needed = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID
	r.privileged = data[0].Effective&needed == needed
	return r
}

// owner returns the owner and group to give a file, -1 for what stays.
func (r *rights) owner(e *Entry, st *unix.Stat_t) (uid, gid int) {
	uid, gid = -1, -1
	if r.privileged && st.Uid != e.UID {
		uid = int(e.UID)
	}
	if st.Gid != e.GID && (r.privileged || st.Uid == r.uid && r.groups[e.GID]) {
		gid = int(e.GID)
	}
	return uid, gid
}

// mode returns the mode for a file that has its owner. Rights of an owner are no one else's; on a directory setgid and
// sticky give none and are kept where the kernel allows.
func (r *rights) mode(e *Entry, st *unix.Stat_t) uint32 {
	switch {
	case e.Type == Directory && !r.privileged:
		return e.Mode &^ unix.S_ISUID
	case e.Type != Directory && (!r.privileged || st.Uid != e.UID || st.Gid != e.GID):
		return e.Mode &^ specialBits
	}
	return e.Mode
}
