// causeway-cluster is a whole Kubernetes cluster in one program: its first argument names the part to run.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"causeway.example.com/causeway-cluster/image"
	"causeway.example.com/causeway-cluster/room"

	// Metrics and client plugins that the upstream programs register in their own main packages.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// parts maps a subcommand to what it runs; os.Args is already shifted, as if the part were its own program.
var parts = map[string]func() int{
	"kube-apiserver":          command(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	"kube-controller-manager": command(func() *cobra.Command { return controllermanager.NewControllerManagerCommand() }),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-proxy":              command(func() *cobra.Command { return proxy.NewProxyCommand() }),
	"kubectl":                 command(func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() }),
	"coredns":                 func() int { coremain.Run(); return 0 },
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"registry":                func() int { return report(image.Serve(os.Args[1:])) },
	"image":                   func() int { return report(image.Push(os.Args[1:])) },
	"room":                    func() int { return report(room.Run(os.Args[1:])) },
	"node":                    func() int { return report(room.RunNode(os.Args[1:])) },
}

func main() {
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		names := make([]string, 0, len(parts))
		for name := range parts {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: %s PART [ARGUMENT…]\nparts: %s\n", filepath.Base(os.Args[0]), strings.Join(names, ", "))
		os.Exit(2)
	}
	run := parts[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(run())
}

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
