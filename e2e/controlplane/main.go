// Command controlplane is a Kubernetes control plane in one process: etcd, kube-apiserver and
// kube-controller-manager, and a kubelet that only reports pods as running. It is for trials of the operator and for
// its tests, never for production: etcd does not sync to disk, and everybody who can read the directory is an
// administrator.
//
// It runs in the foreground, and all its files are in one directory:
//
//	kubeconfig  the kubeconfig of a cluster administrator, under RBAC
//	ready       written when all parts run and /readyz is green; removed first at a stop, or by the next start
//	log         the log of all parts; log.1 is that of the previous process
//	lock        locked by the running process; contains its process ID
//	port, sa.key, tokens.csv, certs/, etcd/  kept for the next process, so that it looks the same to clients
//
// After another start on the same directory, the control plane serves the same objects with the same administrator and
// the same certificate. It also uses the same port if that is free, so that an earlier kubeconfig stays valid. SIGTERM
// and SIGINT stop it in about a second.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// arguments are the parsed command line.
type arguments struct {
	dir        string
	ephemeral  bool
	readyFD    int
	withParent bool
}

func main() {
	err := command(os.Args[1:])
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "controlplane:", err)
	os.Exit(1)
}

// command runs a control plane with the command line args, until the process receives SIGTERM or SIGINT, its parent
// ends, or a part fails. command returns nil if all parts were stopped and none failed.
func command(args []string) error {
	var a arguments
	flags := pflag.NewFlagSet("controlplane", pflag.ContinueOnError)
	flags.StringVar(&a.dir, "dir", "", "directory of the data; it is created if it does not exist")
	flags.BoolVar(&a.ephemeral, "ephemeral", false, "remove the directory when the control plane ends without an error; the directory must be new or empty")
	flags.IntVar(&a.readyFD, "ready-fd", 0, "an inherited file descriptor to write one line to when DIR/ready is written")
	flags.BoolVar(&a.withParent, "with-parent", false, "stop when the process that started this one ends")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: use flags, see --help", flags.Arg(0))
	}
	if a.dir == "" {
		return errors.New("no directory given: name the directory of the data with --dir DIR")
	}
	if a.readyFD != 0 && a.readyFD < 3 {
		return fmt.Errorf("--ready-fd %d is a standard stream: pass a descriptor of 3 or more", a.readyFD)
	}

	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	if a.withParent {
		var err error
		if ctx, err = untilParentEnds(ctx); err != nil {
			return err
		}
	}
	return run(ctx, a)
}
