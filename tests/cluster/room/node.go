package room

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideFlag tells the first process of a node from the one that starts it.
const insideFlag = "inside"

// RunNode is the subcommand `node`: one more machine of a cluster that runs. Started inside of the room, it makes
// namespaces of its own in which a containerd, a kubelet and a kube-proxy run. It ends when one of them does; when its
// first process is killed, all of them end at once, as if the machine had lost its power.
func RunNode(arguments []string) error {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	number := flags.Int("number", 0, "which node of the cluster; the first is the room itself (required, from 2)")
	taints := flags.String("taints", "", "taints of the node, as the kubelet takes them")
	inside := flags.Bool(insideFlag, false, "be the first process of the node's namespaces")
	cluster, err := parseFlags(flags, arguments)
	if err != nil {
		return err
	}
	if *number < 2 || *number > maxNodes {
		return fmt.Errorf("--number needs one from 2 to %d, not %d", maxNodes, *number)
	}
	settings := cluster.node(*number)
	settings.Taints = *taints
	if !*inside {
		return power(settings, arguments)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	node := &room{settings: settings, supervisor: newSupervisor(), log: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)}
	err = node.join(ctx, cluster)
	if ctx.Err() != nil {
		return nil
	}
	if failure := settings.report(phaseFailed, err.Error()); failure != nil {
		node.log.Print(failure)
	}
	return err
}

// power starts the node's first process, plugs the node in and stays until it ends.
func power(s Settings, arguments []string) error {
	if err := s.prepareState(); err != nil {
		return err
	}
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first := exec.Command(s.Program, append([]string{"node", "--" + insideFlag}, arguments...)...)
	first.Stdout, first.Stderr = os.Stdout, os.Stderr
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := first.Start(); err != nil {
		return fmt.Errorf("cannot start the node's first process: %w", err)
	}
	if err := plugIn(s, first.Process.Pid); err != nil {
		_ = first.Process.Kill()
		_ = first.Wait()
		return err
	}
	return first.Wait()
}

// join sets the node up and returns the reason why it must end.
func (r *room) join(ctx context.Context, cluster Settings) error {
	if os.Getpid() != 1 {
		return errors.New("--" + insideFlag + " is for the first process of a node")
	}
	if err := r.prepareNode(ctx, cluster); err != nil {
		return err
	}
	client, err := newClient(filepath.Join(cluster.State, "kubeconfig"))
	if err != nil {
		return err
	}
	if err := r.start([]daemon{r.settings.containerd()}); err != nil {
		return err
	}
	if err := r.wait(ctx, containerdAnswers()); err != nil {
		return err
	}
	if err := r.start(r.settings.nodeClients()); err != nil {
		return err
	}
	for _, wanted := range []condition{nodeReady(client, r.settings.Node.Name), servicesWork()} {
		if err := r.wait(ctx, wanted); err != nil {
			return err
		}
	}
	return r.stay(ctx)
}

// prepareNode makes the node itself; nothing runs on it yet.
func (r *room) prepareNode(ctx context.Context, cluster Settings) error {
	s := r.settings
	// The room's /proc shows nothing of these namespaces.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := mountError("/proc", unix.Mount("proc", "/proc", "proc", 0, "")); err != nil {
		return err
	}
	if err := joinCgroups(s); err != nil {
		return err
	}
	if err := writeNodeConfig(s); err != nil {
		return err
	}
	ca, err := readAuthority(cluster)
	if err != nil {
		return err
	}
	if err := writeNodeCredentials(s, ca); err != nil {
		return err
	}
	if err := prepareMounts(s); err != nil {
		return err
	}
	if err := prepareHost(s); err != nil {
		return err
	}
	if err := prepareUplink(ctx, s); err != nil {
		return err
	}
	return r.supervisor.run(s.Log("nft"), []string{"nft", "--file", s.Config("rules.nft")})
}

// prepareState makes the node's directory below the cluster's.
func (s Settings) prepareState() error {
	if err := os.MkdirAll(s.State, 0o755); err != nil {
		return err
	}
	return s.report(phaseStarting, "network, mounts and credentials")
}
