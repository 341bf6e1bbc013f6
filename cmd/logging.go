// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	stdlog "log"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func (o *managerOptions) logger() (logr.Logger, error) {
	level, known := map[string]zapcore.Level{"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "error": zapcore.ErrorLevel}[o.logLevel]
	if !known {
		return logr.Logger{}, fmt.Errorf("--log-level=%s: write debug, info or error", o.logLevel)
	}
	switch o.logFormat {
	case "json":
		return zap.New(zap.Level(level), zap.JSONEncoder()), nil
	case "console":
		return zap.New(zap.Level(level), zap.ConsoleEncoder(func(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly) })), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format=%s: write json or console", o.logFormat)
	}
}

// logThrough makes one logger that of all libraries. net/http writes to the standard one, client-go to klog, each in a
// form of its own, which a collector of JSON lines can't read.
func logThrough(log logr.Logger) {
	log = log.WithSink(quiet{log.GetSink()})
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	stdlog.SetFlags(0)
	stdlog.SetOutput(lines{log.WithName("net-http")})
}

// quiet is a sink that takes the errors of Events which nobody can keep any more for what they are: the namespace is being
// deleted, with all that is in it. client-go logs each as an error, with the whole Event.
type quiet struct{ logr.LogSink }

// eventRefused begins what k8s.io/client-go/tools/events logs then.
const eventRefused = "Server rejected event"

// Error implements logr.LogSink.
func (q quiet) Error(err error, msg string, keysAndValues ...any) {
	if !strings.HasPrefix(msg, eventRefused) || !(apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err)) {
		q.LogSink.Error(err, msg, keysAndValues...)
		return
	}
	if q.Enabled(1) {
		q.Info(1, "an Event isn't kept: its namespace is being deleted", "error", err.Error())
	}
}

// WithValues implements logr.LogSink.
func (q quiet) WithValues(keysAndValues ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }

// lines is a writer that logs what is written to it.
type lines struct{ log logr.Logger }

// Write implements io.Writer. The standard logger writes one message a call.
func (l lines) Write(b []byte) (int, error) {
	l.log.Info(strings.TrimSpace(string(b)))
	return len(b), nil
}
