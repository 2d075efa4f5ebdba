// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoretest

import (
	"crypto/md5" //nolint:gosec // ETags are MD5.
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is how many entries a page of a list has, so that small tests have several.
const page = 3

type initiated struct {
	XMLName     xml.Name `xml:"InitiateMultipartUploadResult"`
	Bucket, Key string
	UploadID    string `xml:"UploadId"`
}

type failed struct {
	XMLName       xml.Name `xml:"Error"`
	Code, Message string
}

type listed struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name, Prefix          string
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listedObject
	CommonPrefixes        []listedPrefix
}

type listedPrefix struct{ Prefix string }

type listedObject struct {
	Key, ETag, LastModified string
	Size                    int
}

type listedUploads struct {
	XMLName                           xml.Name `xml:"ListMultipartUploadsResult"`
	Bucket, EncodingType              string
	IsTruncated                       bool
	NextKeyMarker, NextUploadIdMarker string `xml:",omitempty"` //nolint:revive,staticcheck // S3's name.
	Upload                            []listedUpload
}

type listedUpload struct{ Key, UploadId, Initiated string } //nolint:revive,staticcheck // S3's name.

type listedParts struct {
	XMLName              xml.Name `xml:"ListPartsResult"`
	IsTruncated          bool
	NextPartNumberMarker int
	Part                 []listedPart
}

type listedPart struct {
	PartNumber, Size int
	ETag             string
}

type completion struct {
	Part []listedPart
}

type completed struct {
	XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
	Bucket, Key, ETag string
}

func answer(w http.ResponseWriter, v any) {
	b, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(b)
}

func fail(w http.ResponseWriter, status int, code string) {
	b, err := xml.Marshal(failed{Code: code, Message: "secret details"})
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func (s *Server) list(w http.ResponseWriter, query url.Values) {
	result := listed{Name: Bucket, Prefix: query.Get("prefix"), EncodingType: "url"}
	after := max(query.Get("start-after"), query.Get("continuation-token"))
	if s.faults.EndlessLists {
		after, result.IsTruncated, result.NextContinuationToken = "", true, "more"
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[key]
		if !strings.HasPrefix(key, result.Prefix) || key <= after || s.faults.StaleLists && s.old[key] == nil {
			continue
		}
		name := strings.TrimPrefix(key, result.Prefix)
		if before, _, below := strings.Cut(name, "/"); below && query.Get("delimiter") == "/" {
			// A page that ends in a directory goes on with what else is in it, as some servers do.
			prefix := listedPrefix{url.QueryEscape(result.Prefix + before + "/")}
			if slices.Contains(result.CommonPrefixes, prefix) {
				result.NextContinuationToken = key
				continue
			}
			if len(result.Contents)+len(result.CommonPrefixes) == page {
				result.IsTruncated = true
				break
			}
			result.CommonPrefixes = append(result.CommonPrefixes, prefix)
			result.NextContinuationToken = key
			continue
		}
		if len(result.Contents)+len(result.CommonPrefixes) == page {
			result.IsTruncated = true
			break
		}
		result.Contents = append(result.Contents, listedObject{
			Key: url.QueryEscape(key), ETag: `"` + o.etag + `"`, Size: len(o.content),
			LastModified: o.modified.UTC().Format(time.RFC3339),
		})
		result.NextContinuationToken = key
	}
	answer(w, result)
}

func (s *Server) listUploads(w http.ResponseWriter, query url.Values) {
	result := listedUploads{Bucket: Bucket, EncodingType: "url"}
	after := query.Get("key-marker") + "\x00" + query.Get("upload-id-marker")
	order := func(a, b string) int {
		return strings.Compare(s.uploads[a].key+"\x00"+a, s.uploads[b].key+"\x00"+b)
	}
	for _, id := range slices.SortedFunc(maps.Keys(s.uploads), order) {
		u := s.uploads[id]
		if prefix := query.Get("prefix"); s.faults.ExactUploads && u.key != prefix {
			continue
		} else if !strings.HasPrefix(u.key, prefix) || u.key+"\x00"+id <= after {
			continue
		}
		if len(result.Upload) == page {
			result.IsTruncated = true
			break
		}
		result.Upload = append(result.Upload, listedUpload{
			url.QueryEscape(u.key), id, u.started.UTC().Format(time.RFC3339),
		})
		result.NextKeyMarker, result.NextUploadIdMarker = u.key, id
	}
	answer(w, result)
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request, key string, query url.Values) {
	id := query.Get("uploadId")
	u := s.uploads[id]
	if u == nil || u.key != key || u.aborted && r.Method != http.MethodGet {
		fail(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		content, err := io.ReadAll(r.Body)
		number, parsed := strconv.Atoi(query.Get("partNumber"))
		if err != nil || parsed != nil {
			return // the client is gone
		}
		part := &object{content: content, etag: digest(content)}
		u.parts[number] = part
		w.Header().Set("Etag", `"`+part.etag+`"`)
	case http.MethodDelete:
		if u.aborted = true; !s.faults.KeepAborted {
			delete(s.uploads, id)
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		s.complete(w, r, id)
	default:
		s.listParts(w, u, query)
	}
}

func (s *Server) listParts(w http.ResponseWriter, u *upload, query url.Values) {
	var result listedParts
	marker, _ := strconv.Atoi(query.Get("part-number-marker")) // none: 0
	for _, number := range slices.Sorted(maps.Keys(u.parts)) {
		if number <= marker {
			continue
		}
		if len(result.Part) == page {
			result.IsTruncated = true
			break
		}
		etag := u.parts[number].etag
		if s.faults.WrongETags {
			etag = digest([]byte(etag))
		}
		result.Part = append(result.Part, listedPart{
			PartNumber: number, Size: len(u.parts[number].content), ETag: `"` + etag + `"`,
		})
		result.NextPartNumberMarker = number
	}
	answer(w, result)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, id string) {
	var wanted completion
	if xml.NewDecoder(r.Body).Decode(&wanted) != nil {
		fail(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	u := s.uploads[id]
	if r.Header.Get("If-None-Match") == "*" && s.objects[u.key] != nil && !s.faults.IgnoreConditions &&
		!s.faults.IgnoreConditionalComplete {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	if code := s.occupied(u.key); code != "" {
		fail(w, http.StatusConflict, code)
		return
	}
	var content, sums []byte
	for _, part := range wanted.Part {
		present := u.parts[part.PartNumber]
		if present == nil || strings.Trim(part.ETag, `"`) != present.etag {
			// As AWS does: the status is sent before it is known what comes of it.
			b, _ := xml.Marshal(failed{Code: "InvalidPart"})
			_, _ = w.Write(b)
			return
		}
		content = append(content, present.content...)
		sum := md5.Sum(present.content) //nolint:gosec // ETags are MD5.
		sums = append(sums, sum[:]...)
	}
	etag := fmt.Sprintf("%s-%d", digest(sums), len(wanted.Part))
	s.write(u.key, content, etag, u.header)
	delete(s.uploads, id)
	answer(w, completed{Bucket: Bucket, Key: u.key, ETag: `"` + s.objects[u.key].etag + `"`})
}
