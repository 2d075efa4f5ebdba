// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree reads a directory tree and writes it to another place: files with their holes, directories, symbolic
// links, hard links and FIFOs, with owner, mode, times and extended attributes. Sockets and devices are counted and not
// moved.
//
// It never leaves the tree that it was given: every path is resolved from the tree's root, element by element, and no
// symbolic link is followed on the way. What cannot be kept is counted and named in Omissions.
//
// # Source
//
// Source.Walk visits what the filter lets through, in the order of Compare. A file with several names is visited as a
// File under the first of them and as a HardLink, whose Target is the first, under the others. Source.Open opens a
// File; SourceFile.Data finds what of it is no hole, which is only worth it if Entry.Sparse, and
// SourceFile.ChangedBlocks what differs from an old version.
//
// # Destination
//
// Destination.Look takes entries in the order of Compare and says whose content is needed. That is written to staged
// files, which get their attributes and names with StagedFile.Commit; StagedFile.WriteHole and StagedFile.CopyFrom,
// from the OldFile that Destination.OpenOld opens, save writing. Destination.Finish then makes hard links, removes what
// was not announced if Mirror asked for it, and gives directories their attributes.
//
// # Memory
//
// A walk holds the names in the directories that it has entered, their length and 5 bytes each, and bounded tables of
// files with several names. Whatever else is needed for every directory or hard link is kept in the staging directory.
package tree
