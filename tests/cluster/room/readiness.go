package room

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// waitTimeout bounds each wait; on a busy machine of two cores the slowest takes a few seconds.
const waitTimeout = 90 * time.Second

// condition is something the room waits for.
type condition struct {
	name  string
	check func(context.Context) error
}

// wait polls a condition until it holds, a daemon ends, or waitTimeout does.
func (r *room) wait(ctx context.Context, wanted condition) error {
	if err := r.settings.report(phaseStarting, wanted.name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		last := wanted.check(ctx)
		if last == nil {
			r.log.Printf("%s: yes", wanted.name)
			return nil
		}
		select {
		case err := <-r.supervisor.ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("waited for %s, in vain: %w", wanted.name, last)
		case <-poll.C:
		}
	}
}

func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 10 * time.Second
	config.RateLimiter = nil
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

func apiAnswers(client rest.Interface) condition {
	return condition{"the API server", func(ctx context.Context) error {
		return client.Get().AbsPath("/readyz").Do(ctx).Error()
	}}
}

func registryAnswers(s Settings) condition {
	return condition{"the registry", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.RegistryAddress()+"/v2/", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}}
}

func containerdAnswers() condition {
	return condition{"containerd", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", "/run/containerd/containerd.sock")
		if err != nil {
			return err
		}
		return connection.Close()
	}}
}

func nodeReady(client kubernetes.Interface, name string) condition {
	return condition{"node " + name + " to be Ready", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		for _, state := range node.Status.Conditions {
			if state.Type != core.NodeReady {
				continue
			}
			if state.Status == core.ConditionTrue {
				return nil
			}
			return errors.New(state.Message)
		}
		return errors.New("the kubelet has not reported yet")
	}}
}

// podsAllowed holds when the controller manager works: without this account no pod can be created.
func podsAllowed(client kubernetes.Interface) condition {
	return condition{"the default service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(meta.NamespaceDefault).Get(ctx, "default", meta.GetOptions{})
		return err
	}}
}

func dnsAnswers(s Settings) condition {
	name := "kubernetes.default.svc." + domain + "."
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.DNSAddress()+":53")
	}}
	return condition{"cluster DNS", func(ctx context.Context) error {
		addresses, err := resolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		if len(addresses) != 1 || addresses[0] != apiServiceAddress {
			return fmt.Errorf("%s is %v, not %s", name, addresses, apiServiceAddress)
		}
		return nil
	}}
}

// servicesWork holds when kube-proxy has written its rules.
func servicesWork() condition {
	return condition{"Service addresses", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", apiServiceAddress+":443")
		if err != nil {
			return err
		}
		return connection.Close()
	}}
}
