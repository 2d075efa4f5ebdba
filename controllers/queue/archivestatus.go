// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// States of a restore in status.
const (
	restoreRunning = "Restoring"
	restoreFailed  = "Failed"
	restoreDone    = "Restored"
)

// archiveCopy is an archive that a spec asks for.
type archiveCopy struct {
	// where it is, for people.
	where string
	// of is what a member says of it.
	of func(*wirev1.QueueReport) *wirev1.QueueArchiveStatus
}

// archiveCopies are the archives that a spec asks for.
func archiveCopies(spec v1alpha1.QueueSpec) []archiveCopy {
	var copies []archiveCopy
	if spec.Archive == nil {
		return nil
	}
	if name := spec.Archive.PersistentVolumeClaim.ClaimName; name != "" {
		copies = append(copies, archiveCopy{"on claim " + name, (*wirev1.QueueReport).GetArchive})
	}
	if store := spec.Archive.ObjectStore; store != nil {
		copies = append(copies, archiveCopy{"in ObjectStore " + store.Name, (*wirev1.QueueReport).GetStoreArchive})
	}
	return copies
}

// archiver is what the member says that writes an archive: the one that leads, else, while members do not agree on
// that, any that does.
func archiver(
	members []Member, of func(*wirev1.QueueReport) *wirev1.QueueArchiveStatus,
) *wirev1.QueueArchiveStatus {
	var found *wirev1.QueueArchiveStatus
	leader := contentOf(members).GetLeader()
	for _, member := range members {
		archive := of(member.Report)
		if archive == nil {
			continue
		}
		if member.Pod.Name == leader {
			return archive
		}
		found = archive
	}
	return found
}

// restorer is what the member says that restores: one that is done, else one that failed, else the one that has come
// furthest.
func restorer(members []Member) *wirev1.QueueRestoreStatus {
	var best *wirev1.QueueRestoreStatus
	for _, member := range members {
		one := member.Report.GetRestore()
		switch {
		case one == nil:
		case best == nil, one.GetDone() && !best.GetDone(), !best.GetDone() && one.GetLastError() != nil &&
			best.GetLastError() == nil,
			one.GetDone() == best.GetDone() && (one.GetLastError() != nil) == (best.GetLastError() != nil) &&
				one.GetMessages() > best.GetMessages():
			best = one
		}
	}
	return best
}

// checkRestore is about a Queue that is being made of an archive.
func checkRestore(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	restore := restorer(facts.Members)
	if queue.Spec.Restore == nil || restore == nil || restore.GetDone() {
		return nil
	}
	if failure := restore.GetLastError(); failure != nil {
		return conditions.Stalled(
			agentreport.FailureReason(failure.GetReason()),
			"clients are not served, because the archive is not restored; that is tried again: "+failure.GetMessage(),
		)
	}
	return conditions.Reconciling(v1alpha1.ReasonRestoring, restoring(restore))
}

func restoring(restore *wirev1.QueueRestoreStatus) string {
	if restore.GetPath() == "" {
		return "clients are served when the archive is restored, which begins when a member leads"
	}
	return fmt.Sprintf(
		"clients are served when archive %s is restored: %d messages are, up to message %d of %d",
		restore.GetPath(), restore.GetMessages(), restore.GetSequence(), restore.GetLastSequence(),
	)
}

// archiveStillNeedsSomebody are the reasons, beside those of Transfers, that an archive meets again until somebody has
// acted.
var archiveStillNeedsSomebody = []string{
	v1alpha1.ReasonDestinationFull, v1alpha1.ReasonDestinationNotWritable, v1alpha1.ReasonInvalidData,
	v1alpha1.ReasonStoreDenied, v1alpha1.ReasonStoreFull, v1alpha1.ReasonStoreUnfit, v1alpha1.ReasonStoreUntrusted,
	v1alpha1.ReasonBucketNotFound, v1alpha1.ReasonClockSkew,
}

// checkArchive is about the archives. Clients are served whatever becomes of them.
func checkArchive(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	var found []metav1.Condition
	for _, one := range archiveCopies(queue.Spec) {
		failure := archiver(facts.Members, one.of).GetLastError()
		if failure == nil {
			continue
		}
		reason := agentreport.FailureReason(failure.GetReason())
		message := fmt.Sprintf("clients are served, and what is put is not archived %s, which is tried again: %s", one.where,
			failure.GetMessage())
		if slices.Contains(archiveStillNeedsSomebody, reason) {
			return conditions.Stalled(reason, message)
		}
		if found == nil {
			found = conditions.Reconciling(reason, message)
		}
	}
	return found
}

// archivedCondition says how the archives are; nil: what was said stays, because no member says anything.
func archivedCondition(queue *v1alpha1.Queue, facts Facts) []metav1.Condition {
	var path string
	var follow []string
	heard, pending := false, false
	for _, one := range archiveCopies(queue.Spec) {
		archive := archiver(facts.Members, one.of)
		heard = heard || archive != nil
		switch failure := archive.GetLastError(); {
		case failure != nil:
			return []metav1.Condition{conditions.New(
				v1alpha1.ConditionArchived, false, agentreport.FailureReason(failure.GetReason()),
				one.where+": "+failure.GetMessage(),
			)}
		case archive.GetLastTime() == nil:
			pending = true
		default:
			path, follow = archive.GetPath(), append(follow, one.where)
		}
	}
	switch {
	case !heard && archiveSaid(queue) != nil:
		return nil
	case !heard:
		return []metav1.Condition{conditions.New(v1alpha1.ConditionArchived, false, v1alpha1.ReasonArchivePending,
			"no member that leads says that it writes the archive yet")}
	case pending:
		return []metav1.Condition{conditions.New(v1alpha1.ConditionArchived, false, v1alpha1.ReasonArchivePending,
			"the archive is being written for the first time")}
	}
	return []metav1.Condition{conditions.New(v1alpha1.ConditionArchived, true, v1alpha1.ReasonArchiveFollows,
		"archive "+path+" follows the queue "+strings.Join(follow, " and "))}
}

// archiveConditions say how archive and restore are. What was said stays while no member says anything.
func archiveConditions(queue *v1alpha1.Queue, facts Facts) []metav1.Condition {
	var out []metav1.Condition
	if queue.Spec.Archive != nil {
		out = archivedCondition(queue, facts)
	}
	restore := restorer(facts.Members)
	if queue.Spec.Restore == nil || restore == nil {
		return out
	}
	switch failure := restore.GetLastError(); {
	case restore.GetDone():
		return append(out, conditions.New(v1alpha1.ConditionRestored, true, v1alpha1.ReasonRestored,
			fmt.Sprintf("%d messages of archive %s were put into the queue", restore.GetMessages(), restore.GetPath())))
	case failure != nil:
		return append(
			out,
			conditions.New(
				v1alpha1.ConditionRestored, false, agentreport.FailureReason(failure.GetReason()), failure.GetMessage(),
			),
		)
	default:
		return append(out, conditions.New(v1alpha1.ConditionRestored, false, v1alpha1.ReasonRestoring, restoring(restore)))
	}
}

// archiveSaid is what status says of the archive by now.
func archiveSaid(queue *v1alpha1.Queue) *metav1.Condition {
	for i := range queue.Status.Conditions {
		if queue.Status.Conditions[i].Type == v1alpha1.ConditionArchived {
			return &queue.Status.Conditions[i]
		}
	}
	return nil
}

// refreshArchives shows what members say of the archives.
func refreshArchives(status *v1alpha1.QueueStatus, queue *v1alpha1.Queue, members []Member) {
	archive := queue.Spec.Archive
	status.Archive = archiveStatus(archive != nil && archive.PersistentVolumeClaim.ClaimName != "",
		(*wirev1.QueueReport).GetArchive, members, status.Archive)
	status.StoreArchive = archiveStatus(archive != nil && archive.ObjectStore != nil,
		(*wirev1.QueueReport).GetStoreArchive, members, status.StoreArchive)
}

// archiveStatus is what status shows of an archive. While no member says anything, what was shown stays.
func archiveStatus(
	wanted bool, of func(*wirev1.QueueReport) *wirev1.QueueArchiveStatus, members []Member,
	present *v1alpha1.QueueArchiveStatus,
) *v1alpha1.QueueArchiveStatus {
	if !wanted {
		return nil
	}
	archive, clamp := archiver(members, of), replicas.Clamp
	if archive == nil {
		return present
	}
	last, compression := contentOf(members).GetLastSequence(), archive.GetCompression()
	return &v1alpha1.QueueArchiveStatus{
		Path:            archive.GetPath(),
		Sequence:        clamp(archive.GetSequence()),
		Behind:          clamp(last - min(archive.GetSequence(), last)),
		Ranges:          clamp(archive.GetRanges()),
		RangeBytes:      clamp(archive.GetBytes()),
		Messages:        clamp(archive.GetMessages()),
		Bytes:           clamp(archive.GetPlainBytes()),
		CompressedBytes: clamp(archive.GetWrittenBytes()),
		Ratio:           replicas.Ratio(archive.GetPlainBytes(), archive.GetWrittenBytes()),
		Passed:          clamp(archive.GetPassed()),
		Codec:           compression.GetCodec(),
		Engine:          compression.GetEngine(),
		Reason:          compression.GetReason(),
		LastTime:        seconds(archive.GetLastTime()),
		LastError:       archiveError(archive.GetLastError(), archive.GetLastErrorTime()),
	}
}

// restoreStatus is what status shows of the restore. While no member says anything, what was shown stays.
func restoreStatus(
	queue *v1alpha1.Queue, members []Member, present *v1alpha1.QueueRestoreStatus,
) *v1alpha1.QueueRestoreStatus {
	if queue.Spec.Restore == nil {
		return nil
	}
	restore, clamp := restorer(members), replicas.Clamp
	if restore == nil {
		return present
	}
	status := &v1alpha1.QueueRestoreStatus{
		State:        restoreRunning,
		Path:         restore.GetPath(),
		Messages:     clamp(restore.GetMessages()),
		Bytes:        clamp(restore.GetBytes()),
		ArchiveBytes: clamp(restore.GetArchiveBytes()),
		LastError:    archiveError(restore.GetLastError(), restore.GetLastErrorTime()),
	}
	switch {
	case restore.GetDone():
		status.State = restoreDone
	case restore.GetLastError() != nil:
		status.State = restoreFailed
	}
	const million = 1e6
	elapsed := restore.GetElapsed().AsDuration()
	if elapsed > 0 {
		status.Duration = &metav1.Duration{Duration: elapsed.Round(time.Millisecond)}
		status.MegabytesPerSecond = strconv.FormatFloat(float64(restore.GetBytes())/million/elapsed.Seconds(), 'f', 2, 64)
	}
	if restore.GetBytes() > 0 {
		status.CPUSecondsPerMegabyte = strconv.FormatFloat(
			float64(restore.GetCpuNanos())/1e9/(float64(restore.GetBytes())/million), 'f', 6, 64,
		)
	}
	return status
}

func archiveError(failure *wirev1.Failure, at *timestamppb.Timestamp) *v1alpha1.QueueArchiveError {
	if failure == nil {
		return nil
	}
	return &v1alpha1.QueueArchiveError{
		Reason: agentreport.FailureReason(
			failure.GetReason(),
		), Message: conditions.Shorten(failure.GetMessage()), Time: seconds(at),
	}
}
