"""Nova's fake hypervisor, with guests to which things happen behind Nova's back.

The power state of a guest is what the file $state/guests/UUID says ("paused", "shutdown",
"crashed"), if there is one. No event tells Nova: it finds out when it looks next. One whose
name begins with "broken" does not boot.
"""
import os

from nova import exception
from nova.compute import power_state
from nova.scheduler.client import report
from nova.virt import fake
from nova.virt import hardware

# Before each boot Nova asks Placement about every guest of the host, one after the other.
# Only what is not here (PCI devices, nested resources) needs the answers.
report.SchedulerReportClient.get_allocations_for_provider_tree = lambda self, context, nodename: {}

GUESTS = os.path.join(os.environ['state'], 'guests')


class Driver(fake.FakeDriver):
    def spawn(self, context, instance, *args, **kwargs):
        if instance.display_name.startswith('broken'):
            raise exception.BuildAbortException(instance_uuid=instance.uuid, reason='its name says so')
        super().spawn(context, instance, *args, **kwargs)

    def get_info(self, instance, use_cache=True):
        try:
            with open(os.path.join(GUESTS, instance.uuid)) as f:
                return hardware.InstanceInfo(state=getattr(power_state, f.read().strip().upper()))
        except FileNotFoundError:
            return super().get_info(instance, use_cache)
