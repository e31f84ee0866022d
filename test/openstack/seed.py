"""Fills a new cloud: first with users and the catalog, then with what it takes to boot,
which it prints as variables of a shell.

seed.py identity PASSWORD TYPE=URL…
seed.py resources
"""
import sys
import time

import openstack

cloud = openstack.connect(cloud='admin')


def identity(password, *services):
    ids = cloud.identity
    roles = {r.name: r for r in ids.roles()}
    for name in 'service', 'heat_stack_owner', 'heat_stack_user':
        roles[name] = roles.get(name) or ids.create_role(name=name)

    def member(name, project, *names):
        project = ids.create_project(name=project, domain_id='default')
        user = ids.create_user(name=name, password=password, domain_id='default', default_project_id=project.id)
        for role in names:
            ids.assign_project_role_to_user(project, user, roles[role])

    member('services', 'services', 'admin', 'service')
    member('member', 'demo', 'member', 'reader', 'heat_stack_owner')
    for service in services:
        kind, url = service.split('=', 1)
        made = ids.create_service(name=kind, type=kind)
        for interface in 'public', 'internal', 'admin':
            ids.create_endpoint(service_id=made.id, interface=interface, url=url, region_id='RegionOne')
    # Heat makes users of its own, in a domain of theirs.
    domain = ids.create_domain(name='heat')
    ids.assign_domain_role_to_user(
        domain, ids.create_user(name='heat_domain_admin', password=password, domain_id=domain.id), roles['admin'])


def resources():
    flavor = cloud.compute.create_flavor(name='tiny', vcpus=1, ram=64, disk=1)  # disk=0 is for admins
    image = cloud.create_image('blank', wait=True, container_format='bare', disk_format='raw', visibility='public',
                               data=b'\0' * 1024)
    net = cloud.network.create_network(name='shared', shared=True)
    subnet = cloud.network.create_subnet(name='shared', network_id=net.id, ip_version=4, cidr='10.65.0.0/16', enable_dhcp=False)
    out = cloud.network.create_network(name='outside', is_router_external=True)  # of floating IPs
    cloud.network.create_subnet(name='outside', network_id=out.id, ip_version=4, cidr='10.66.0.0/24', enable_dhcp=False)
    router = cloud.network.create_router(name='router', external_gateway_info={'network_id': out.id})
    cloud.network.add_interface_to_router(router, subnet_id=subnet.id)
    # A server is scheduled to no host before Nova shows it.
    deadline = time.monotonic() + 120
    while not any(h.state == 'up' for h in cloud.compute.hypervisors()):
        if time.monotonic() > deadline:
            sys.exit('no compute host within two minutes')
        time.sleep(1)
    print(f'export OS_FLAVOR_ID={flavor.id} OS_IMAGE_ID={image.id} OS_NETWORK_ID={net.id}')


{'identity': identity, 'resources': resources}[sys.argv[1]](*sys.argv[2:])
