// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bucket keeps a tree in an object store, as the destination or the source of a Transfer.
//
// Every file is an object of its own with the file's bytes as they are, so that other tools read it. Everything else,
// that is directories, links, FIFOs, owners, modes, times and extended attributes, is in an index, an object that
// replaces the former one when a run is complete. An entry of the index belongs to a file's object as long as that has
// the ETag which the entry notes: an object that was overwritten keeps mode and owner, one that others added has
// default attributes.
//
//	PREFIX/PATH                          a file
//	PREFIX/DIRECTORY/NAME.gz or .zst     a file in a form, with its index .NAME.gz.lgci beside it
//	PREFIX/.lighterage/index             the index
//	PREFIX/.lighterage/writer            who writes now
//	PREFIX/.lighterage/uploads/DIGEST    a multipart upload under way
//	PREFIX/.lighterage/parts/DIGEST/NUMBER    the blocks of a part of an upload of a file in a form
//	PREFIX/.lighterage/archives/NAME     an archive
//	PREFIX/.lighterage/archives/.NAME.lgci             its index
//	PREFIX/.lighterage/archives/journal/NAME/NUMBER    what is in a part of one that no index of the prefix names yet
//
//	PREFIX/.lighterage/SHA256SUMS        of what is encrypted, as it rests
//	PREFIX/.lighterage/SHA256SUMS.next   of that with an index which is being put
//
// With ArchiveOptions files are packed into archives, which are tars in the forms of package cargo, in place of objects
// of their own. The entry of a file then says in which archive it is, and where. With RestingOptions each file is
// compressed in a form of package cargo, under the name that the form gives it, and the entry is that of the plain
// file. Who reads recognises all of them. With Encryption archives, their indexes, the journal and the index of the
// prefix are files of age (see package agefile). Who reads them wraps the store by Decrypted.
//
// A block volume is the only file of its prefix, tree.ImageName. An ImageSource reads it as one again.
//
// # Writing
//
// Write takes a source (a tree, or another bucket) entry by entry, beside the index and the list of what is there, all
// three in the order of tree.Compare, so that nothing has to be remembered. Workers put what differs. An object that an
// attempt without an index left is recognised by its metadata, an upload by its note, so that a further attempt puts
// what is missing and no more than the parts that were on their way.
//
// # Reading
//
// Source is a source for package send. Its entries are those of the index, and of objects that the index does not know.
//
// # Memory
//
// Lists hold the names in the directories on the way, at most objectstore.DefaultMaxNames of each. Entries whose upload
// has not ended are held up to 32 MiB. Each stream has a buffer of 4 MiB, whatever the size of an object. With archives it
// has two blocks of 1 MiB, and there are three parts; who reads archives holds 12 windows of 4 MiB, and 32 MiB of indexes.
package bucket
