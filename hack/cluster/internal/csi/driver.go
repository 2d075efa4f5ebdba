// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package csi is a CSI driver for the local clusters and for tests. Its volumes are image files of a Pool on btrfs,
// with a loop device where they are staged, so that volumes have exactly the size that was asked for, are block devices
// or file systems, and are cloned in an instant.
//
// One process serves all nodes of a cluster: they are network namespaces of one machine. A volume that is attached to
// one of them is kept from the others nevertheless.
package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
)

const (
	// Name is what StorageClasses and VolumeSnapshotClasses call the driver.
	Name = "btrfs.csi.lighterage.dev"
	// version is of the driver: it changes with what a client can see.
	version = "1"
	// defaultSize is of volumes for which no size is asked, in bytes.
	defaultSize = 64 * pool.Unit
)

// Node is where the driver serves one node.
type Node struct {
	Name string
	// Socket is of the driver, Registration is one that the kubelet looks for, or empty.
	Socket, Registration string
}

// Driver serves volumes of one Pool to several nodes.
type Driver struct {
	pool  *pool.Pool
	nodes []Node
}

// New makes a Driver.
func New(p *pool.Pool, nodes []Node) *Driver { return &Driver{pool: p, nodes: nodes} }

// Serve serves all nodes until ctx ends.
func (d *Driver) Serve(ctx context.Context) error {
	if err := d.thawAll(); err != nil {
		return fmt.Errorf("letting writers go on: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range d.nodes {
		// What holds writers lets them go on before the process ends.
		server := grpc.NewServer(grpc.UnaryInterceptor(logErrors), grpc.WaitForHandlers(true))
		csiv1.RegisterIdentityServer(server, identity{})
		csiv1.RegisterControllerServer(server, &controller{Driver: d})
		csiv1.RegisterGroupControllerServer(server, &groups{Driver: d})
		csiv1.RegisterNodeServer(server, &node{Driver: d, name: n.Name})
		group.Go(func() error { return serve(ctx, server, n.Socket) })
		if n.Registration == "" {
			continue
		}
		kubelet := grpc.NewServer()
		registrationv1.RegisterRegistrationServer(kubelet, registration{node: n})
		group.Go(func() error { return serve(ctx, kubelet, n.Registration) })
	}
	return group.Wait()
}

func serve(ctx context.Context, server *grpc.Server, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return fmt.Errorf("serving %s: %w", socket, err)
	}
	// What a process that was killed has left.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("serving %s: %w", socket, err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("serving %s: %w", socket, err)
	}
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving %s: %w", socket, err)
	}
	return nil
}

func logErrors(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	if err != nil {
		log.Printf("%s: %v", info.FullMethod, err)
	}
	return resp, err
}

// registration tells a kubelet of the driver.
type registration struct {
	registrationv1.UnimplementedRegistrationServer
	node Node
}

func (r registration) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{
		Type: registrationv1.CSIPlugin, Name: Name, Endpoint: r.node.Socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r registration) NotifyRegistrationStatus(
	_ context.Context, s *registrationv1.RegistrationStatus,
) (*registrationv1.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		log.Printf("The kubelet of %s knows the driver", r.node.Name)
	} else {
		log.Printf("The kubelet of %s rejects the driver: %s", r.node.Name, s.GetError())
	}
	return &registrationv1.RegistrationStatusResponse{}, nil
}

type identity struct {
	csiv1.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(
	context.Context, *csiv1.GetPluginInfoRequest,
) (*csiv1.GetPluginInfoResponse, error) {
	return &csiv1.GetPluginInfoResponse{Name: Name, VendorVersion: version}, nil
}

func (identity) Probe(context.Context, *csiv1.ProbeRequest) (*csiv1.ProbeResponse, error) {
	return &csiv1.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csiv1.GetPluginCapabilitiesRequest,
) (*csiv1.GetPluginCapabilitiesResponse, error) {
	return &csiv1.GetPluginCapabilitiesResponse{Capabilities: []*csiv1.PluginCapability{
		{Type: &csiv1.PluginCapability_Service_{Service: &csiv1.PluginCapability_Service{
			Type: csiv1.PluginCapability_Service_CONTROLLER_SERVICE,
		}}},
		{Type: &csiv1.PluginCapability_Service_{Service: &csiv1.PluginCapability_Service{
			Type: csiv1.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
		}}},
		{Type: &csiv1.PluginCapability_VolumeExpansion_{VolumeExpansion: &csiv1.PluginCapability_VolumeExpansion{
			Type: csiv1.PluginCapability_VolumeExpansion_OFFLINE,
		}}},
	}}, nil
}

// answer makes of an error of a Pool what clients understand.
func answer(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	code := codes.Internal
	for known, c := range map[error]codes.Code{
		pool.ErrNotFound: codes.NotFound, pool.ErrConflict: codes.AlreadyExists, pool.ErrInUse: codes.FailedPrecondition,
		pool.ErrFull: codes.ResourceExhausted, pool.ErrTooSmall: codes.OutOfRange,
	} {
		if errors.Is(err, known) {
			code = c
		}
	}
	return status.Error(code, err.Error())
}

// required fails with the name of the first field that is empty. It takes names and values in turn.
func required(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return status.Errorf(codes.InvalidArgument, "%s is missing", fields[i])
		}
	}
	return nil
}

// modes are what a volume can be used for, and whether several nodes can share it so.
var modes = map[csiv1.VolumeCapability_AccessMode_Mode]struct{ readOnly, shared bool }{
	csiv1.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        {},
	csiv1.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: {},
	csiv1.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  {},
	csiv1.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   {readOnly: true},
	csiv1.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    {readOnly: true, shared: true},
}

const fsType = "ext4"

// supported fails if a volume cannot be used so.
func supported(c *csiv1.VolumeCapability) error {
	if c == nil || c.GetBlock() == nil && c.GetMount() == nil {
		return status.Error(codes.InvalidArgument, "volume_capability is missing, or has no access type")
	}
	if _, ok := modes[c.GetAccessMode().GetMode()]; !ok {
		return status.Errorf(codes.InvalidArgument,
			"volumes cannot be %s: ask for one writing node, or for nodes that only read", c.GetAccessMode().GetMode())
	}
	if t := c.GetMount().GetFsType(); t != "" && t != fsType {
		return status.Errorf(codes.InvalidArgument, "the file system is %s, not %s", fsType, t)
	}
	return nil
}
