// Package notify listens to what the services of an OpenStack tell each other over
// RabbitMQ. They tell it once, to whoever listens, so it is no more than a hint where to
// look.
package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"windsock"
)

const (
	queueLength  = 10_000 // messages; the oldest give way
	queueAge     = time.Minute
	prefetch     = 200
	dialLimit    = 10 * time.Second
	heartbeat    = 10 * time.Second
	closeLimit   = time.Second
	lookForEvery = 15 * time.Second // for exchanges that are not there yet
	heatWrites   = 2 * time.Second  // after it told of it what the state of a stack is now
)

// keys are what the services route notifications by: legacy ones and versioned ones, each
// with a priority.
var keys = [...]string{"notifications.*", "versioned_notifications.*"}

// Config says where to listen. The user has to have all permissions on queues named
// windsock-…, and may read from the exchanges.
type Config struct {
	URL       string   // amqp:// or amqps://, as https://www.rabbitmq.com/docs/uri-spec has it; with a password, so never shown
	Exchanges []string // the control_exchange of each service; default nova and heat
}

// Listen has each notification hinted at, until ctx ends or the connection is lost. It calls
// listening when nothing can be missed any more, and once more when it hears an exchange
// that was not there at first. A stack it hints at twice, as Heat tells before it writes.
func Listen(ctx context.Context, config Config, listening func(), hint func(windsock.Subject)) error {
	conn, err := dial(ctx, config.URL)
	if err != nil {
		return err
	}
	end := sync.OnceFunc(func() { conn.CloseDeadline(time.Now().Add(closeLimit)) })
	defer end()
	defer context.AfterFunc(ctx, end)() // whatever waits for an answer
	err = listen(ctx, conn, "windsock-"+rand.Text(), config.Exchanges, listening, hint)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ValidURL returns an error if there is nothing to listen at by this URL. It does not show
// it.
func ValidURL(url string) error {
	if _, err := amqp.ParseURI(url); err != nil {
		return errors.New("want amqp:// or amqps://, user, password, host and virtual host, with what is special in them percent-encoded")
	}
	return nil
}

func dial(ctx context.Context, url string) (*amqp.Connection, error) {
	if err := ValidURL(url); err != nil {
		return nil, fmt.Errorf("RabbitMQ: its URL: %w", err)
	}
	stop := func() bool { return true }
	defer func() { stop() }()
	conn, err := amqp.DialConfig(url, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: amqp.Table{"product": "windsock", "connection_name": "windsock"},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			stop = context.AfterFunc(ctx, func() { conn.Close() })
			return conn, conn.SetDeadline(time.Now().Add(dialLimit)) // for the handshakes, that ends with them
		},
	})
	if err != nil {
		return nil, fmt.Errorf("RabbitMQ: %w", err)
	}
	return conn, nil
}

func listen(ctx context.Context, conn *amqp.Connection, queue string, exchanges []string, listening func(), hint func(windsock.Subject)) error {
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	if _, err := ch.QueueDeclare(queue, false, true, true, false, amqp.Table{
		amqp.QueueMaxLenArg:     queueLength,
		amqp.QueueOverflowArg:   amqp.QueueOverflowDropHead,
		amqp.QueueMessageTTLArg: queueAge.Milliseconds(),
		amqp.QueueTTLArg:        queueAge.Milliseconds(),
	}); err != nil {
		return fmt.Errorf("RabbitMQ: the queue: %w", err)
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}
	// Acknowledged by hand, as nothing else bounds what lies unread in our memory.
	deliveries, err := ch.Consume(queue, "", false, true, false, false, nil)
	if err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}

	if len(exchanges) == 0 {
		exchanges = []string{"nova", "heat"}
	}
	look, again := time.NewTimer(0), time.NewTicker(time.Second)
	defer look.Stop()
	defer again.Stop()
	var stacks []late // in the order of time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			missing, err := bind(conn, ch, queue, exchanges)
			if err != nil {
				return err
			}
			if len(missing) < len(exchanges) {
				listening()
			}
			if exchanges = missing; len(exchanges) > 0 {
				look.Reset(lookForEvery)
			}
		case <-again.C:
			for len(stacks) > 0 && time.Until(stacks[0].at) <= 0 {
				hint(stacks[0].Subject)
				stacks = stacks[1:]
			}
		case d, ok := <-deliveries:
			if !ok {
				select {
				case err := <-lost:
					return fmt.Errorf("RabbitMQ: connection lost: %w", err)
				default:
					return errors.New("RabbitMQ: the queue was taken away")
				}
			}
			if s, ok := subject(d.Body); ok {
				hint(s)
				if s.Kind == windsock.KindDeployment && len(stacks) < queueLength {
					stacks = append(stacks, late{s, time.Now().Add(heatWrites)})
				}
			}
			d.Ack(false) // what keeps it from that ends the deliveries
		}
	}
}

// late is what to hint at once more, and when.
type late struct {
	windsock.Subject
	at time.Time
}

// bind binds the queue to the exchanges, and returns those that are not there: a service
// makes its own with the first it has to say. We do not, for whoever makes an exchange
// with other properties than the services want locks them out.
func bind(conn *amqp.Connection, ch *amqp.Channel, queue string, exchanges []string) (missing []string, err error) {
	for _, exchange := range exchanges {
		switch there, err := exists(conn, exchange); {
		case err != nil:
			return nil, fmt.Errorf("RabbitMQ: exchange %s: %w", exchange, err)
		case !there:
			missing = append(missing, exchange)
			continue
		}
		for _, key := range keys {
			if err := ch.QueueBind(queue, key, exchange, false, nil); err != nil {
				return nil, fmt.Errorf("RabbitMQ: exchange %s: %w", exchange, err)
			}
		}
	}
	return missing, nil
}

// exists asks on a channel of its own, as a no closes it.
func exists(conn *amqp.Connection, exchange string) (bool, error) {
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close()
	err = ch.ExchangeDeclarePassive(exchange, amqp.ExchangeTopic, false, false, false, false, nil)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}
