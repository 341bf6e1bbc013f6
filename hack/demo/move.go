// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// movePort edits a spec: the traffic is to follow.
func (d *demo) movePort(ctx context.Context) error {
	d.screen.scene("A spec is edited", "Another spec.port: the proxy moves there.", "")
	p, err := plain(d.samples.proxies)
	if err != nil {
		return err
	}
	before, err := d.providerIDs(ctx)
	if err != nil {
		return err
	}
	old, err := d.targets(ctx, p.Name)
	if err != nil || len(old) != 1 {
		return errors.Join(fmt.Errorf("find the endpoint of %s: %d of 1 found", p.Name, len(old)), err)
	}
	port := p.Spec.ListenPort() + 1
	if port > 65535 {
		port = v1alpha1.DefaultPort
	}
	started := time.Now()
	if err := d.kube.show(ctx, "patch", "proxy", p.Name, "--type=merge", "--patch", fmt.Sprintf(`{"spec":{"port":%d}}`, port)); err != nil {
		return err
	}
	if err := d.awaitReplaced(ctx, []string{p.Name}, before); err != nil {
		return err
	}
	targets, err := d.targets(ctx, p.Name)
	if err != nil || len(targets) != 1 {
		return errors.Join(fmt.Errorf("find the new endpoint of %s: %d of 1 found", p.Name, len(targets)), err)
	}
	d.screen.ok("moved from %s to %s %s", old[0].at, targets[0].at, took(started))
	if err := d.showRequests(ctx, targets); err != nil {
		return err
	}
	d.check(!connects(ctx, old[0].at), "nobody listens on %s any more", old[0].at)
	return context.Cause(ctx)
}

// plain finds a Managed sample that nothing but its spec is about.
func plain(proxies []v1alpha1.Proxy) (*v1alpha1.Proxy, error) {
	for i := range proxies {
		p := &proxies[i]
		if p.Spec.Mode != v1alpha1.ModeExternal && p.Spec.CloudInit == nil && p.Spec.Auth == nil && p.Spec.HealthCheck == nil {
			return p, nil
		}
	}
	return nil, errors.New("config/samples must have a Managed Proxy without cloudInit, auth and healthCheck")
}

func connects(ctx context.Context, at string) bool {
	conn, err := (&net.Dialer{Timeout: requestLimit}).DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
