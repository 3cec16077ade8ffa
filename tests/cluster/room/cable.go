package room

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
)

// uplink is a node's end of the cable to the room's bridge; the other end has the node's name.
const uplink = "uplink"

// nodesMask is the part of the cluster's range that nodes have; all else is reached through the first node.
var nodesMask = net.CIDRMask(24, 32)

// plugIn lays a cable from the room's bridge to a new node, whose first process is pid, and sends its pods' traffic
// there. The cable goes with the node.
func plugIn(s Settings, pid int) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("no bridge %s: a node joins from inside of the room: %w", bridgeName, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = s.Node.Name
	attributes.MasterIndex = bridge.Attrs().Index
	cable := &netlink.Veth{LinkAttrs: attributes, PeerName: uplink, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("cannot lay a cable to %s: %w", s.Node.Name, err)
	}
	if err := netlink.LinkSetUp(cable); err != nil {
		return fmt.Errorf("cannot bring the cable to %s up: %w", s.Node.Name, err)
	}
	_, pods, err := net.ParseCIDR(s.Node.PodRange)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: pods, Gw: net.ParseIP(s.Node.Address)}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("cannot send traffic for %s to %s: %w", s.Node.PodRange, s.Node.Name, err)
	}
	return nil
}

// prepareUplink configures the node's end of the cable, which is laid while the node waits.
func prepareUplink(ctx context.Context, s Settings) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	link, err := netlink.LinkByName(uplink)
	for err != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no cable was laid to %s: %w", s.Node.Name, err)
		case <-time.After(10 * time.Millisecond):
			link, err = netlink.LinkByName(uplink)
		}
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(s.Node.Address), Mask: nodesMask}}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("cannot give %s to %s: %w", address, uplink, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("cannot bring %s up: %w", uplink, err)
	}
	_, everywhere, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: everywhere, Gw: net.ParseIP(s.Control.Address)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("cannot add the default route: %w", err)
	}
	return nil
}
