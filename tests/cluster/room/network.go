package room

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// prepareNetwork gives the room's empty network namespace a loopback, a bridge that carries the node's address and
// the default route, and forwarding. Pods hang on links of their own (the ptp plugin), not on the bridge: all their
// traffic is routed, so Services work between any two of them without br_netfilter.
func prepareNetwork(s Settings) error {
	if err := prepareHost(s); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridgeName
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("cannot add the bridge %s: %w", bridgeName, err)
	}
	_, cluster, err := net.ParseCIDR(clusterRange)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(s.Node.Address), Mask: cluster.Mask}}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		return fmt.Errorf("cannot give %s to %s: %w", address, bridgeName, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("cannot bring %s up: %w", bridgeName, err)
	}
	// Nothing answers there, but programs that look for their own address by the default route find it.
	_, everywhere, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: everywhere, Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("cannot add the default route: %w", err)
	}
	return nil
}

// prepareHost gives a node its name and its loopback, and lets it forward.
func prepareHost(s Settings) error {
	if err := unix.Sethostname([]byte(s.Node.Name)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("no loopback link: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("cannot bring the loopback up: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}
