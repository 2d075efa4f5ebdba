// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// rate is how many bytes an agent moves in a second. At it no run here ends.
	rate       = 40e6
	totalBytes = 64 << 40
	fileBytes  = 4 << 20
	blockBytes = 1 << 20
	version    = "fleet"
	// amd64 and s390x as Go names them.
	amd64, s390x = "amd64", "s390x"
)

// moved is how many bytes an agent has moved.
func (a *agent) moved(now time.Time) uint64 {
	return uint64(now.Sub(a.began).Seconds() * rate)
}

// report of an agent in the middle of a run, as long as real ones are.
func (a *agent) report(now time.Time) *wirev1.Report {
	moved := a.moved(now)
	r := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Version: version, Architecture: a.architecture,
		StartTime: timestamppb.New(a.began), WireBytes: moved / 4,
		Progress: &wirev1.Progress{
			Files: moved / fileBytes, Bytes: moved, FilesTotal: totalBytes / fileBytes, BytesTotal: totalBytes,
			Scanned: true,
		},
		Cpu: &wirev1.CPU{SendNanos: moved / 2, ReceiveNanos: moved / 3, CompressNanos: moved / 5,
			DecompressNanos: moved / 6},
		Decompression: &wirev1.Decompression{
			Hardware: &wirev1.Operations{}, Software: &wirev1.Operations{Operations: moved / blockBytes, Bytes: moved},
			Fallback: &wirev1.Operations{},
		},
	}
	if a.kind == sender {
		r.Compression = compressed(moved)
	}
	return r
}

func compressed(moved uint64) *wirev1.Compression {
	blocks := moved / blockBytes
	return &wirev1.Compression{
		Codec: "deflate", Engine: "zlib-ng", Reason: "SoftwareUsed", Level: "Fast", UncompressedBytes: moved,
		CompressedBytes: moved / 4,
		Hardware:        &wirev1.Operations{}, Software: &wirev1.Operations{Operations: blocks, Bytes: moved},
		Stored:  &wirev1.Operations{Operations: blocks / 20},
		Skipped: map[string]uint64{"Incompressible": blocks / 20}, Reasons: map[string]uint64{"SoftwareUsed": blocks},
		Estimate: &wirev1.Estimate{Blocks: blocks, Bytes: moved, ErrorBytes: moved / 100, Probes: blocks / 200,
			Nanos: moved / 50},
	}
}

func (a *agent) measurement() *wirev1.NodeMeasurement {
	const second = 1e9
	level := &wirev1.LevelMeasurement{
		Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 4e8, SampleCompressedBytes: 3e5,
		Selected: true,
	}
	engine := func(name, codec string) *wirev1.EngineMeasurement {
		return &wirev1.EngineMeasurement{
			Name: name, Codec: codec, Verified: true, CompressBytesPerSecond: 4e8, DecompressBytesPerSecond: 9e8,
			SampleBytes: 1e6, SampleCompressedBytes: 3e5, Levels: []*wirev1.LevelMeasurement{level}, Inflates: true,
		}
	}
	m := &wirev1.NodeMeasurement{
		Version: version, Architecture: a.architecture, Cores: 16, NetworkCpuNanosPerGib: 0.4 * second,
		NetworkCpuNanosPerGibLeast: 0.38 * second, NetworkCpuNanosPerGibMost: 0.43 * second, NetworkRuns: 5,
		MeasuredTime: timestamppb.New(a.began), Kernel: "6.12.0", CpuModel: "fleet",
		Engines: []*wirev1.EngineMeasurement{engine("zlib-ng", "deflate"), engine("go", "deflate"),
			engine("libzstd", "zstd")},
		Accelerator: &wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT,
			Reason: "NoAccelerator", Message: "none"},
	}
	if a.architecture == s390x {
		m.Engines = append(m.Engines, engine("dfltcc", "deflate"))
		m.Accelerator = &wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED,
			Reason: "Verified", Message: "all levels"}
	}
	return m
}

func (a *agent) httpReport(now time.Time, revision string) *wirev1.HTTPReport {
	moved := a.moved(now)
	return &wirev1.HTTPReport{
		State: wirev1.HTTPState_HTTP_STATE_SERVING, Version: version, Architecture: a.architecture,
		StartTime: timestamppb.New(a.began), Revision: revision,
		Certificate: &wirev1.HTTPCertificate{State: wirev1.CertificateState_CERTIFICATE_STATE_NONE},
		Statistics: &wirev1.HTTPStatistics{
			ActiveConnections: 20, HighWaterConnections: 80, Reused: moved / 9000, SoftwareResponses: moved / 12000,
			UncompressedResponses: moved / 50000,
			ResponsesByCoding:     map[string]uint64{"gzip": moved / 12000, "identity": moved / 50000},
			CompressedPlainBytes:  moved, CompressedBytes: moved / 4, Since: timestamppb.New(a.began),
		},
		Compression: compressed(moved), Cpu: &wirev1.CPU{SendNanos: moved / 2, CompressNanos: moved / 5},
		WireBytes: moved / 2,
	}
}

func (a *agent) queueReport(now time.Time, revision string) *wirev1.QueueReport {
	moved := a.moved(now)
	messages := moved / 12000
	pace := func() *wirev1.QueueRate {
		return &wirev1.QueueRate{Count: messages, MilliPerSecond: 3_300_000, HighMilliPerSecond: 4_000_000}
	}
	return &wirev1.QueueReport{
		State: wirev1.QueueState_QUEUE_STATE_SERVING, Version: version, Architecture: a.architecture,
		StartTime: timestamppb.New(a.began),
		Member:    a.pod, Revision: revision,
		Certificate: &wirev1.HTTPCertificate{State: wirev1.CertificateState_CERTIFICATE_STATE_NONE},
		Content: &wirev1.QueueContent{
			Messages: 1000, Bytes: 4e6, FirstSequence: messages, LastSequence: messages + 1000,
			OldestTime: timestamppb.New(now.Add(-time.Second)),
			Consumers:  4, Leader: a.pod, Created: timestamppb.New(a.began), Kept: 1000,
		},
		Statistics: &wirev1.QueueStatistics{
			Puts: pace(), Gets: pace(), Compressions: pace(), Decompressions: pace(),
			CompressedPlainBytes: moved, CompressedBytes: moved / 4, RecentPlainBytes: 1e8, RecentBytes: 25e6,
			Connections: 8, HighWaterConnections: 12, Opened: 40, Closed: 32, Since: timestamppb.New(a.began),
			Tried: messages, TriedNanos: moved / 5,
			Checkpoints: &wirev1.QueueVolumeSyncs{
				Count: messages / 1000, TotalNanos: moved / 1000, LastNanos: 2e6, HighNanos: 9e6,
			},
		},
		Compression: compressed(moved),
		Cpu:         &wirev1.CPU{SendNanos: moved / 2, CompressNanos: moved / 5, DecompressNanos: moved / 6},
		WireBytes:   moved,
	}
}
