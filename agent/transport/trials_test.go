// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// sampled answers the manager and trials.
type sampled struct {
	wirev1.UnimplementedHTTPAgentServer
	wirev1.UnimplementedSamplerServer
}

func (sampled) GetHTTPReport(context.Context, *wirev1.GetHTTPReportRequest) (*wirev1.GetHTTPReportResponse, error) {
	return &wirev1.GetHTTPReportResponse{}, nil
}

func (sampled) SetHTTPConfig(context.Context, *wirev1.SetHTTPConfigRequest) (*wirev1.SetHTTPConfigResponse, error) {
	return &wirev1.SetHTTPConfigResponse{}, nil
}

func (sampled) Sample(_ *wirev1.SampleRequest, stream wirev1.Sampler_SampleServer) error {
	return stream.Send(&wirev1.SampleResponse{})
}

// TestWhoMaySample: trials of the namespace get samples and nothing else, the manager everything else, and others do
// not even connect.
func TestWhoMaySample(t *testing.T) {
	const name = "0000.http.lighterage.internal"
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	server := transport.NewSampledServer(transport.NewFiles(east.Directory(t, west, "/ns/bank/httpendpoint/shop", name)))
	wirev1.RegisterHTTPAgentServer(server, sampled{})
	wirev1.RegisterSamplerServer(server, sampled{})
	address := serve(t, server, nil, 100)
	for caller, test := range map[string]struct {
		directory        string
		connects         bool
		samples, reports codes.Code
	}{
		"trial": {
			east.Directory(t, west, "/ns/bank/trial/shop", ""), true, codes.OK, codes.PermissionDenied,
		},
		"manager":                 {east.Directory(t, west, "/manager", ""), true, codes.PermissionDenied, codes.OK},
		"trial of another":        {directory: east.Directory(t, west, "/ns/other/trial/shop", "")},
		"Transfer":                {directory: east.Directory(t, west, "/ns/bank/transfer/shop", "")},
		"another replica":         {directory: east.Directory(t, west, "/ns/bank/httpendpoint/shop", "")},
		"something below a trial": {directory: east.Directory(t, west, "/ns/bank/trial/shop/x", "")},
		"no name":                 {directory: east.Directory(t, west, "/ns/bank/trial/", "")},
		// It knows the cluster's authority, but is of another cluster.
		"trial of another cluster": {directory: west.Directory(t, east, "/ns/bank/trial/shop", "")},
	} {
		t.Run(caller, func(t *testing.T) {
			dialer := &transport.Dialer{Address: address, Files: transport.NewFiles(test.directory)}
			dial := dialer.DialOwn
			if caller == "trial of another cluster" {
				dial = dialer.Dial // believes the server, as its peer
			}
			client, err := dial(name)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = client.Ready(ctx)
			if !test.connects {
				// What refuses a client is seen with the first call at the latest.
				if err == nil {
					_, err = wirev1.NewHTTPAgentClient(client).GetHTTPReport(ctx, &wirev1.GetHTTPReportRequest{})
				}
				if err == nil || ctx.Err() != nil {
					t.Errorf("connecting ends with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stream, err := wirev1.NewSamplerClient(client).Sample(ctx, &wirev1.SampleRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != test.samples {
				t.Errorf("a sample: %v", err)
			}
			if _, err := wirev1.NewHTTPAgentClient(client).GetHTTPReport(
				ctx, &wirev1.GetHTTPReportRequest{},
			); status.Code(err) != test.reports {
				t.Errorf("a report: %v", err)
			}
			longest := &wirev1.SetHTTPConfigRequest{Config: make([]byte, wirev1.MaxSentConfig)}
			if _, err := wirev1.NewHTTPAgentClient(client).SetHTTPConfig(ctx, longest); status.Code(err) != test.reports {
				t.Errorf("a configuration: %v", err)
			}
			longer := &wirev1.SetHTTPConfigRequest{Config: make([]byte, 2*wirev1.MaxSentConfig)}
			if _, err := wirev1.NewHTTPAgentClient(client).SetHTTPConfig(
				ctx, longer,
			); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("a configuration that is too long: %v", err)
			}
		})
	}
}
